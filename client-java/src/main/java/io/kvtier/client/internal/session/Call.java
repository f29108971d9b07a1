package io.kvtier.client.internal.session;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.client.LookupResult;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * One request in flight, and its completion once that has come. The session pools calls: the thread
 * that submitted a request reads the answer and gives the call back. The fields are written under
 * the session's lock and published by the state.
 */
public final class Call implements BooleanSupplier {
  static final int FREE = 0;
  static final int WAITING = 1;
  static final int DONE = 2;

  /** Nobody waits any longer; what the completion grants is given back. */
  static final int ABANDONED = 3;

  private static final int BODY_BYTES_KEPT = 8192;
  private static final byte[] NOTHING = new byte[0];
  private static final VarHandle LONGS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INTS =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle SHORTS =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);

  /** The index in the session's table; -1 for an answer that no daemon gave. */
  final int slot;

  private volatile int state = FREE;
  private volatile @Nullable Thread waiter;

  long id;
  Verb verb = Verb.PING;
  int expected;

  /** When the client itself gives up. */
  long limitNs;

  @Nullable Batch batch;
  int batchIndex;

  /** The trace context of the request. */
  @Nullable TraceContext context;

  Status status = Status.OK;
  int count;
  int run;
  long value;
  boolean text;
  byte[] body = NOTHING;
  int bodyBytes;

  /** A lookup's, where a region advertises some of it. */
  private LookupResult.@Nullable Holder holder;

  Call(int slot) {
    this.slot = slot;
  }

  /** An answer made by the client itself. */
  public static Call local(Verb verb, int count, Status status, String detail) {
    Call call = new Call(-1);
    call.verb = verb;
    call.expected = count;
    call.answerLocally(status, detail);
    return call;
  }

  void answerLocally(Status localStatus, String detail) {
    status = localStatus;
    text = true;
    body = detail.getBytes(UTF_8);
    bodyBytes = body.length;
    count = bodyBytes;
    run = 0;
    value = 0;
    state = DONE;
  }

  int state() {
    return state;
  }

  void state(int newState) {
    state = newState;
  }

  public boolean isDone() {
    return state == DONE;
  }

  @Override
  public boolean getAsBoolean() {
    return isDone();
  }

  void waiter(@Nullable Thread thread) {
    waiter = thread;
  }

  @Nullable Thread waiter() {
    return waiter;
  }

  /** Forgets the answer, so that the call can serve the next request. */
  void reset() {
    state = FREE;
    waiter = null;
    batch = null;
    context = null;
    holder = null;
    if (body.length > BODY_BYTES_KEPT) {
      body = NOTHING;
    }
  }

  /** Copies and checks the completion at an offset of the session's memory. */
  void read(MemorySegment region, long offset, int recordBytes) throws ProtocolViolation {
    Status answered =
        Status.of(Words.getShort(region, offset + CompletionDescriptor.STATUS_OFFSET));
    int results = Words.getInt(region, offset + CompletionDescriptor.COUNT_OFFSET);
    int flags = Words.getShort(region, offset + CompletionDescriptor.FLAGS_OFFSET);
    boolean isText = (flags & CompletionDescriptor.FLAG_TEXT) != 0;
    long bytes = isText ? results : (long) results * Records.result(verb);
    if (results < 0 || bytes > recordBytes - CompletionDescriptor.HEADER_BYTES) {
      throw new ProtocolViolation(
          "completion of "
              + verb
              + " says "
              + Integer.toUnsignedLong(results)
              + " in "
              + recordBytes
              + " bytes");
    }
    if (answered == Status.OK
        && results != expected
        && (Records.hasKeys(verb.body()) || verb.body() == RequestBody.IDS)) {
      throw new ProtocolViolation(
          "completion of " + verb + " has " + results + " blocks, asked for " + expected);
    }
    holder = null;
    if ((flags & CompletionDescriptor.FLAG_PEERS) != 0 && !isText) {
      long peers = Records.completion(verb, results);
      if (peers + CompletionDescriptor.PEERS_BYTES > recordBytes) {
        throw new ProtocolViolation(
            "completion of " + verb + " in " + recordBytes + " bytes has no room for its holder");
      }
      holder = holderAt(region, offset + peers);
    }
    status = answered;
    count = results;
    text = isText;
    run = Words.getInt(region, offset + CompletionDescriptor.RUN_OFFSET);
    value = Words.getLong(region, offset + CompletionDescriptor.VALUE_OFFSET);
    bodyBytes = (int) bytes;
    if (body.length < bodyBytes) {
      body = new byte[Math.max(bodyBytes, 64)];
    }
    MemorySegment.copy(
        region,
        ValueLayout.JAVA_BYTE,
        offset + CompletionDescriptor.HEADER_BYTES,
        body,
        0,
        bodyBytes);
  }

  private static LookupResult.Holder holderAt(MemorySegment region, long at) {
    return new LookupResult.Holder(
        Words.getInt(region, at + CompletionDescriptor.PEERS_RUN_OFFSET),
        Words.getInt(region, at + CompletionDescriptor.PEERS_REGION_OFFSET),
        Words.getInt(region, at + CompletionDescriptor.PEERS_GPU_OFFSET),
        Words.getInt(region, at + CompletionDescriptor.PEERS_RANK_OFFSET));
  }

  /** How the request was answered; OK when it was carried out, whatever its blocks say. */
  public Status status() {
    return status;
  }

  /** How many blocks were asked for. */
  public int expected() {
    return expected;
  }

  /** How many blocks from the first are there, by the daemon. */
  public int run() {
    return run;
  }

  /** The number that the answer brings; what it means depends on the verb. */
  public long value() {
    return value;
  }

  /** The trace context of the request. */
  public @Nullable TraceContext context() {
    return context;
  }

  /** The region that advertises the longest prefix of a lookup's keys; null: none has the first. */
  public LookupResult.@Nullable Holder holder() {
    return status == Status.OK ? holder : null;
  }

  /** The explanation, or the text asked for. */
  public String detail() {
    return text ? new String(body, 0, bodyBytes, UTF_8) : "";
  }

  private int at(int index) {
    return index * Records.result(verb);
  }

  /** The outcome of a block; that of the whole request where it was not carried out. */
  public Status blockStatus(int index) {
    if (status != Status.OK) {
      return status;
    }
    short code = (short) SHORTS.get(body, at(index) + CompletionDescriptor.BLOCK_STATUS_OFFSET);
    return Status.of(Short.toUnsignedInt(code));
  }

  public TierId tier(int index) {
    return status == Status.OK
        ? TierId.of(Byte.toUnsignedInt(body[at(index) + CompletionDescriptor.BLOCK_TIER_OFFSET]))
        : TierId.NONE;
  }

  public int flags(int index) {
    return Byte.toUnsignedInt(body[at(index) + CompletionDescriptor.BLOCK_FLAGS_OFFSET]);
  }

  public int checksum(int index) {
    return (int) INTS.get(body, at(index) + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET);
  }

  public long holdId(int index) {
    return (long) LONGS.get(body, at(index) + CompletionDescriptor.BLOCK_ID_OFFSET);
  }

  public int slab(int index) {
    return (int) INTS.get(body, at(index) + CompletionDescriptor.BLOCK_SLAB_OFFSET);
  }

  public int length(int index) {
    return (int) INTS.get(body, at(index) + CompletionDescriptor.BLOCK_LENGTH_OFFSET);
  }

  public long offset(int index) {
    return (long) LONGS.get(body, at(index) + CompletionDescriptor.BLOCK_OFFSET_OFFSET);
  }
}

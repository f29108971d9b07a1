package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.daemon.grpc.IndexAnswer.Grant;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.vertx.grpc.common.GrpcStatus;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A get: acquire, send from the slots, release. The keys are taken in windows of few bytes; while
 * one is sent the next is acquired, so that a call holds at most two windows of leases.
 *
 * <p>Nothing is copied: the socket reads the slots. So a window is released when the last of its
 * bytes has been written, and a call whose bytes are still not written when its leases draw to
 * their end is broken off, its connection too if that does not help.
 */
final class GetCall extends Call<GetResponse> {
  /** The bytes of a window, unless one block is larger. */
  static final int WINDOW_BYTES = 4 << 20;

  private static final int WINDOW_BLOCKS_MAX = 256;

  /** The most time for blocks on their way to the client; of a short timeout, a quarter. */
  private static final long ANSWER_NS_MAX = TimeUnit.MILLISECONDS.toNanos(250);

  private static final int WINDOWS_MAX = 2;

  /** How many bytes may wait to be written. */
  private static final int UNWRITTEN_BYTES_MAX = 4 << 20;

  /** How many bytes are handed over at once; small blocks together. */
  private static final int BATCH_BYTES = 256 << 10;

  private static final int TURN_BYTES = 4 << 20;

  /** Of the time that may pass without progress. */
  private static final int LEASE_STALLS = 2;

  /** Keys from one place on, their leases, and what the stream still needs of them. */
  private static final class Window {
    final int from;
    final IndexAnswer answer;
    final long leaseNs;

    /** Blocks whose bytes did not match. */
    final BitSet corrupt = new BitSet();

    int unwritten;
    boolean isSent;

    Window(int from, IndexAnswer answer) {
      this.from = from;
      this.answer = answer;
      this.leaseNs = answer.value() - System.nanoTime();
    }

    int to() {
      return from + answer.count();
    }

    /** Whether less than some eighths of the leases' time are left. */
    boolean isPast(int eighths, long nowNs) {
      return answer.value() - nowNs < leaseNs / 8 * eighths;
    }
  }

  private static final int EIGHTHS_TO_SEND = 3;
  private static final int EIGHTHS_TO_CUT = 2;
  private static final int EIGHTHS_TO_CUT_CONNECTION = 1;

  private @Nullable GetRequest message;
  private @Nullable KeyBatch keys;
  private int blockBytes;
  private @Nullable BlockEncoding encoding;
  private int flags;
  private int priority;
  private String expectedFrom = "";

  /** The first key of which nothing has been asked yet. */
  private int nextToAcquire;

  private long correlationId;
  private boolean acquiring;
  private @Nullable Status restStatus;

  /** Those that hold leases. */
  private final List<Window> windows = new ArrayList<>(WINDOWS_MAX);

  private @Nullable Window current;
  private @Nullable Window ready;

  /** Where the sending stands. */
  private int block;

  private int offset;
  private @Nullable CRC32C crc;

  /** The block that is being sent, if it is encoded in its slot. */
  private @Nullable DecodedBlock decoded;

  private int unwrittenBytes;

  /** Bytes of the current window that are to be handed over together. */
  private int batchBytes;

  private boolean pumping;
  private boolean rests;

  GetCall(Environment environment, RemoteConnection connection, GrpcStream stream) {
    super(environment, connection, stream);
  }

  @Override
  void take(ReceivedMessage received) throws InvalidProtocolBufferException {
    message = GetRequest.parseFrom(received.whole());
  }

  @Override
  void onRequestsEnd() throws RefusedException {
    GetRequest received = message;
    if (received == null) {
      fail(GrpcStatus.INVALID_ARGUMENT, "no message came");
      return;
    }
    Namespaces.Namespace namespace = environment.namespace(received.getKeys().getNamespaceId());
    KeyBatch batch = KeyBatch.of(received.getKeys(), namespace.id());
    blockBytes = namespace.blockBytes();
    encoding = namespace.encoding();
    priority = Wire.priority(received.getPriority());
    flags =
        (received.getLeadingRun() ? RequestDescriptor.FLAG_LEADING_RUN : 0)
            | (received.getNoWait() ? RequestDescriptor.FLAG_NO_WAIT : 0)
            | (encoding == null ? 0 : RequestDescriptor.FLAG_ENCODED);
    expectedFrom = received.getExpectedFrom();
    keys = batch;
    named(received.getOperationId());
    acquire();
  }

  @Override
  void giveReason(Status status, String why) {
    respond(GetResponse.newBuilder().setRefusal(Wire.outcome(status, why)).build());
  }

  // ---- acquiring
  // ------------------------------------------------------------------------------------------------

  private static int windowBlocks(int blockBytes) {
    return Math.clamp(WINDOW_BYTES / blockBytes, 1, WINDOW_BLOCKS_MAX);
  }

  private void acquire() {
    KeyBatch all = keys;
    if (all == null
        || acquiring
        || ready != null
        || windows.size() == WINDOWS_MAX
        || restStatus != null
        || isOver()
        || nextToAcquire == all.count()) {
      return;
    }
    int from = nextToAcquire;
    int to = Math.min(all.count(), from + windowBlocks(blockBytes));
    nextToAcquire = to;
    acquiring = true;
    correlationId =
        submit(
            IndexRequest.acquire(
                all.part(from, to),
                flags,
                priority,
                answerByNs(),
                LEASE_STALLS * environment.stallNs(),
                expectedFrom),
            answer -> onAcquired(from, answer));
  }

  /**
   * The instant at which the index answers, also for blocks that have not come. The blocks that
   * have come must reach the client before its own deadline, or it loses them, too.
   */
  private long answerByNs() {
    long endNs = deadlineNs();
    return endNs == 0 ? 0 : endNs - Math.clamp((endNs - System.nanoTime()) / 4, 0, ANSWER_NS_MAX);
  }

  private void onAcquired(int from, IndexAnswer answer) {
    acquiring = false;
    progress();
    if (answer.status() != Status.OK) {
      if (from == 0) {
        refuse(answer);
        return;
      }
      nextToAcquire = from;
      restStatus = answer.status();
    } else {
      Window window = new Window(from, answer);
      windows.add(window);
      if (isOver()) {
        sent(window);
        return;
      }
      ready = window;
      if ((flags & RequestDescriptor.FLAG_LEADING_RUN) != 0 && restStatus == null) {
        for (int i = 0; i < answer.count() && restStatus == null; i++) {
          restStatus = answer.blockStatus(i) == Status.MISS ? Status.MISS : null;
        }
      }
    }
    pump();
  }

  /** Nothing more of a window is sent than what is on its way. */
  private void sent(Window window) {
    window.isSent = true;
    releaseWritten(window);
  }

  private void releaseWritten(Window window) {
    if (!window.isSent || window.unwritten > 0 || !windows.remove(window)) {
      return;
    }
    long[] sound = new long[window.answer.count()];
    long[] corrupt = new long[window.corrupt.cardinality()];
    int sounds = 0;
    int corrupts = 0;
    for (int i = 0; i < window.answer.count(); i++) {
      long id = window.answer.grant(i).id();
      if (window.corrupt.get(i)) {
        corrupt[corrupts++] = id;
      } else if (id != 0) {
        sound[sounds++] = id;
      }
    }
    if (sounds > 0) {
      environment.gateway().submitSilent(IndexRequest.release(Arrays.copyOf(sound, sounds)));
    }
    if (corrupts > 0) {
      var _ = submit(IndexRequest.releaseCorrupt(corrupt), answer -> {});
    }
    acquire();
  }

  // ---- sending
  // --------------------------------------------------------------------------------------------------

  private void pump() {
    if (!pumping) {
      pumping = true;
      try {
        sendSome();
      } finally {
        pumping = false;
      }
    }
  }

  private void sendSome() {
    KeyBatch all = keys;
    if (all == null || rests) {
      return;
    }
    int turnBytes = 0;
    while (!isOver() && block < all.count()) {
      if (current == null) {
        current = ready;
        ready = null;
        acquire();
      }
      Window window = current;
      if (window == null && (acquiring || restStatus == null)) {
        flush(); // its completion, or the room that is made for it, pumps again
        return;
      }
      if (unwrittenBytes + batchBytes >= UNWRITTEN_BYTES_MAX) {
        flush(); // so does what is written
        return;
      }
      if (turnBytes >= TURN_BYTES) {
        flush();
        rests = true;
        environment.gateway().later(this::afterRest); // others have their turn
        return;
      }
      if (window == null) {
        sendAbsent(restStatus == null ? Status.INTERNAL : restStatus, TierId.NONE);
      } else {
        turnBytes += send(window);
      }
    }
    flush();
    if (!isOver() && block == all.count() && unwrittenBytes == 0) {
      respondEnd();
    }
  }

  private void flush() {
    Window window = current;
    int bytes = batchBytes;
    batchBytes = 0;
    if (window == null || bytes == 0) {
      flushed();
      return;
    }
    window.unwritten++;
    unwrittenBytes += bytes;
    flushed().onComplete(written -> onWritten(window, bytes, written.succeeded()));
  }

  private void afterRest() {
    rests = false;
    pump();
  }

  /** Sends the next piece; returns its bytes. */
  private int send(Window window) {
    IndexAnswer answer = window.answer;
    int place = block - window.from;
    Status status = answer.blockStatus(place);
    int bytes = 0;
    if (status != Status.OK) {
      sendAbsent(status, answer.blockTier(place));
    } else if (restStatus == Status.CANCELLED) {
      sendAbsent(Status.CANCELLED, answer.blockTier(place));
    } else if (window.isPast(EIGHTHS_TO_SEND, System.nanoTime())) {
      sendAbsent(Status.STALE, answer.blockTier(place));
    } else {
      bytes = sendChunk(window, place);
    }
    boolean isLast = block == window.to();
    if (isLast || batchBytes >= BATCH_BYTES) {
      flush();
    }
    if (isLast) {
      current = null;
      sent(window);
    }
    return bytes;
  }

  private int sendChunk(Window window, int place) {
    Grant grant = window.answer.grant(place);
    TierId tier = window.answer.blockTier(place);
    MemorySegment slot =
        environment.slabs().apply(grant.slab()).asSlice(grant.offset(), grant.length());
    BlockEncoding encoded = grant.length() == blockBytes ? null : encoding;
    CRC32C sum = crc;
    if (sum == null) {
      sum = new CRC32C();
      crc = sum;
      decoded = encoded == null ? null : DecodedBlock.of(encoded, slot, grant.checksum());
    }
    DecodedBlock raw = decoded;
    if (encoded != null && raw == null) {
      window.corrupt.set(place);
      sendAbsent(Status.CORRUPT, tier);
      return 0;
    }
    int checksum = raw == null ? grant.checksum() : raw.checksum();
    int length = Math.min(environment.chunkBytes(), blockBytes - offset);
    boolean isLast = offset + length == blockBytes;
    ByteBuffer bytes = (raw == null ? slot : raw.bytes()).asSlice(offset, length).asByteBuffer();
    sum.update(bytes.duplicate());
    if (isLast && (int) sum.getValue() != checksum) {
      window.corrupt.set(place);
      sendAbsent(Status.CORRUPT, tier);
      return 0;
    }
    append(
        Wire.chunkHead(
            GetResponse.newBuilder()
                .setBlock(block)
                .setTier(Wire.tier(tier))
                .setOffset(offset)
                .setCrc32C(checksum)
                .setLast(isLast)
                .build(),
            length),
        bytes);
    batchBytes += length;
    if (isLast) {
      nextBlock();
    } else {
      offset += length;
    }
    return length;
  }

  private void onWritten(Window window, int length, boolean isWritten) {
    window.unwritten--;
    unwrittenBytes -= length;
    releaseWritten(window);
    if (!isWritten) {
      onBroken();
    }
    progress();
    pump();
  }

  /** Ends a block without (more of) its bytes. */
  private void sendAbsent(Status status, TierId tier) {
    append(
        GetResponse.newBuilder()
            .setBlock(block)
            .setStatus(Wire.status(status))
            .setTier(Wire.tier(tier))
            .setOffset(offset)
            .setLast(true)
            .build());
    nextBlock();
  }

  private void nextBlock() {
    block++;
    offset = 0;
    crc = null;
    decoded = null;
    progress();
  }

  // ---- ending
  // ---------------------------------------------------------------------------------------------------

  @Override
  void cancelByClient() {
    if (restStatus == null || restStatus == Status.MISS) {
      restStatus = Status.CANCELLED;
      environment.gateway().cancel(correlationId);
      pump();
    }
  }

  @Override
  boolean waitsForClient() {
    return unwrittenBytes > 0 || !isHalfClosed();
  }

  @Override
  boolean holdsAfterEnd() {
    return !windows.isEmpty();
  }

  @Override
  void tick(long nowNs) {
    for (Window window : windows) {
      if (window.unwritten > 0 && window.isPast(EIGHTHS_TO_CUT_CONNECTION, nowNs)) {
        cutConnection();
        return;
      }
      if (window.unwritten > 0 && window.isPast(EIGHTHS_TO_CUT, nowNs)) {
        cutOff();
        return;
      }
    }
  }

  @Override
  void release() {
    environment.gateway().cancel(correlationId);
    current = null;
    ready = null;
    for (Window window : List.copyOf(windows)) {
      sent(window);
    }
  }
}

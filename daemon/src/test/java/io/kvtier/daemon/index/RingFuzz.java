package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Has a client that keeps to no rule write into its session's memory, next to a client that keeps
 * to all rules. An input is a sequence of steps, a byte that says which, and what it needs,
 * little-endian:
 *
 * <pre>
 *   0  u16 length, bytes   a record goes into the ring and is published, where there is room
 *   1                      the index works, and a millisecond passes
 *   2  u8 which, u64       a word of the header is written; which: a place in WORDS
 *   3                      the completions are taken, and the ids in them kept
 *   4  u16 offset, u8      a byte of the request ring is written
 *   5                      the session ends, another begins
 * </pre>
 *
 * <p>Other steps are these, modulo 6. In the ids of COMMIT, ABORT and RELEASE a word whose upper
 * half is {@link #ID_MARK} stands for one of the ids that were kept. {@code
 * checks/attacks/fuzz_inputs.py} throws the same inputs at a whole daemon.
 */
public final class RingFuzz {
  private static final int RING_BYTES = Protocol.RING_BYTES_MIN;
  private static final int SLOTS = 8;
  private static final int STEPS_MAX = 200;
  private static final long MS = 1_000_000;
  private static final int ID_MARK = 0x1D1D1D1D;
  private static final Grant WRITER = new Grant("fuzz", Role.WRITE, Grant.NO_TENANT);

  /** The words that a client reads or writes, and some that are not its own. */
  private static final int[] WORDS = {
    SessionRegionDescriptor.REQUEST_TAIL_OFFSET,
    SessionRegionDescriptor.REQUEST_HEAD_OFFSET,
    SessionRegionDescriptor.COMPLETION_TAIL_OFFSET,
    SessionRegionDescriptor.COMPLETION_HEAD_OFFSET,
    SessionRegionDescriptor.CLIENT_WAITING_OFFSET,
    SessionRegionDescriptor.END_REASON_OFFSET,
    SessionRegionDescriptor.MAGIC_OFFSET,
    SessionRegionDescriptor.SESSION_ID_OFFSET,
    SessionRegionDescriptor.REQUEST_RING_BYTES_OFFSET,
    SessionRegionDescriptor.COMPLETION_RING_BYTES_OFFSET
  };

  private final IndexHarness harness;
  private final ByteBuffer input;
  private final List<Long> ids = new ArrayList<>();
  private IndexHarness.Client client;
  private long tail;
  private long head;

  private RingFuzz(IndexHarness harness, byte[] input) throws IOException {
    this.harness = harness;
    this.input = ByteBuffer.wrap(input).order(ByteOrder.LITTLE_ENDIAN);
    this.client = harness.open(RING_BYTES, WRITER);
  }

  /** Runs one input; an exception is a finding. */
  public static void fuzzerTestOneInput(byte[] input) throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(2, SLOTS)
                .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                .ssd(2, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
                .admission("all"))) {
      IndexHarness.Client bystander = harness.open(RING_BYTES, WRITER);
      bystander.register();
      new RingFuzz(harness, input).run();
      if (bystander.endReason() != Status.OK) {
        throw new AssertionError("the other client was cut off: " + bystander.endReason());
      }
      Status seen = bystander.ask(Verb.LOOKUP, 1);
      if (seen != Status.OK && seen != Status.MISS && seen != Status.PENDING) {
        throw new AssertionError("the other client was told " + seen);
      }
      harness.close(bystander);
      // All operations and holds end by their deadlines.
      harness.nowNs += 1_000_000 * MS;
      for (int i = 0; i < 4; i++) {
        harness.nowNs += 1_000 * MS;
        var _ = harness.agent.doWork();
      }
      harness.agent.checkInvariants();
      long leases = harness.counters.get(Counter.GAUGE_LEASES);
      if (leases != 0) {
        throw new AssertionError(leases + " leases are left, of nobody");
      }
    }
  }

  private void run() throws IOException {
    for (int steps = 0; steps < STEPS_MAX && input.hasRemaining(); steps++) {
      switch ((input.get() & 0xff) % 6) {
        case 0 -> record();
        case 1 -> work();
        case 2 -> {
          int which = WORDS[(number(1) & 0xff) % WORDS.length];
          Words.putLong(memory(), which, longNumber());
        }
        case 3 -> take();
        case 4 -> {
          long at = ring() + (number(2) & (RING_BYTES - 1));
          Words.putByte(memory(), at, number(1));
        }
        default -> {
          harness.close(client);
          client = harness.open(RING_BYTES, WRITER);
          tail = 0;
          head = 0;
          ids.clear();
        }
      }
    }
    work();
    harness.close(client);
    harness.agent.checkInvariants();
  }

  private MemorySegment memory() {
    return client.memory();
  }

  private static long ring() {
    return SessionRegion.ringsOffset();
  }

  /** A number of a few bytes; 0 at the input's end. */
  private int number(int bytes) {
    int value = 0;
    for (int i = 0; i < bytes && input.hasRemaining(); i++) {
      value |= (input.get() & 0xff) << (8 * i);
    }
    return value;
  }

  private long longNumber() {
    return Integer.toUnsignedLong(number(4)) | (long) number(4) << 32;
  }

  private void work() {
    harness.nowNs += MS;
    var _ = harness.agent.doWork();
  }

  private void record() {
    int length = Math.min(number(2), input.remaining());
    byte[] bytes = new byte[(length + 7) & ~7];
    input.get(bytes, 0, length);
    long taken = Words.getLong(memory(), SessionRegionDescriptor.REQUEST_HEAD_OFFSET);
    if (bytes.length == 0 || tail - taken + bytes.length > RING_BYTES) {
      return;
    }
    putIds(bytes);
    // The ring is mapped twice in a row: a record may run over its end.
    long at = ring() + (tail & (RING_BYTES - 1));
    MemorySegment.copy(MemorySegment.ofArray(bytes), 0, memory(), at, bytes.length);
    tail += bytes.length;
    Words.putLong(memory(), SessionRegionDescriptor.REQUEST_TAIL_OFFSET, tail);
  }

  private void putIds(byte[] bytes) {
    if (bytes.length < RequestDescriptor.HEADER_BYTES || ids.isEmpty()) {
      return;
    }
    ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    int verb = Short.toUnsignedInt(words.getShort(RequestDescriptor.VERB_OFFSET));
    if (verb == Verb.COMMIT.code() || verb == Verb.ABORT.code() || verb == Verb.RELEASE.code()) {
      for (int at = RequestDescriptor.HEADER_BYTES; at < bytes.length; at += Long.BYTES) {
        if (words.getInt(at + Integer.BYTES) == ID_MARK) {
          words.putLong(at, ids.get(Integer.remainderUnsigned(words.getInt(at), ids.size())));
        }
      }
    }
  }

  private void take() {
    MemorySegment memory = memory();
    long end = Words.getLong(memory, SessionRegionDescriptor.COMPLETION_TAIL_OFFSET);
    while (head >= 0 && head < end && end - head <= RING_BYTES) {
      long at = SessionRegion.completionRingOffset(RING_BYTES) + (head & (RING_BYTES - 1));
      int bytes = Words.getInt(memory, at);
      if (bytes < CompletionDescriptor.HEADER_BYTES || bytes > end - head || bytes % 8 != 0) {
        return; // after a word of the header was written over
      }
      keepIds(memory, at, bytes);
      head += bytes;
    }
    Words.putLong(memory, SessionRegionDescriptor.COMPLETION_HEAD_OFFSET, head);
  }

  private void keepIds(MemorySegment memory, long at, int bytes) {
    Verb verb = Verb.of(Words.getShort(memory, at + CompletionDescriptor.VERB_OFFSET));
    int flags = Words.getShort(memory, at + CompletionDescriptor.FLAGS_OFFSET);
    int count = Words.getInt(memory, at + CompletionDescriptor.COUNT_OFFSET);
    int each = CompletionDescriptor.LONG_RESULT_BYTES;
    if ((verb != Verb.RESERVE && verb != Verb.ACQUIRE)
        || (flags & CompletionDescriptor.FLAG_TEXT) != 0
        || count < 0
        || count > (bytes - CompletionDescriptor.HEADER_BYTES) / each) {
      return;
    }
    for (int i = 0; i < count; i++) {
      long result = at + CompletionDescriptor.HEADER_BYTES + (long) i * each;
      if (Words.getShort(memory, result) == Status.OK.code()) {
        ids.add(Words.getLong(memory, result + CompletionDescriptor.BLOCK_ID_OFFSET));
      }
    }
  }
}

package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Blocks;
import io.kvtier.client.Leases;
import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.session.Slabs;
import io.kvtier.client.internal.shared.Log;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.BlockCoder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/** Leases of one session. */
final class LocalLeases implements Leases, Grant {
  private static final long DECODED_ALIGNMENT = 64;

  private final Operations operations;
  private final @Nullable Session session;
  private final Options options;
  private final Status status;
  private final String detail;
  private final Blocks blocks;
  private final @Nullable MemorySegment[] views;
  private final int[] checksums;
  private final boolean[] verify;
  private final boolean[] encoded;
  private final long[] ids;
  private final int granted;
  private final long endNs;

  /** The trace context of the acquire: it names the reader of damaged blocks, whoever closes. */
  private final @Nullable TraceContext context;

  private final AtomicBoolean closed = new AtomicBoolean();
  private final boolean[] corrupt;
  private volatile boolean anyCorrupt;

  /**
   * Reads the answer to ACQUIRE, and maps the slabs that it names.
   *
   * @param encoding views of encoded blocks are decoded copies; null: they are views of the encoded
   *     bytes
   */
  LocalLeases(
      Operations operations,
      Operation acquired,
      Options options,
      @Nullable BlockEncoding encoding) {
    this.operations = operations;
    this.options = options;
    this.status = acquired.status();
    this.detail = acquired.detail();
    int count = acquired.count();
    byte[] statuses = new byte[count];
    byte[] tiers = new byte[count];
    acquired.outcomes(statuses, tiers);
    this.views = new MemorySegment[count];
    this.checksums = new int[count];
    this.verify = new boolean[count];
    this.encoded = new boolean[count];
    this.ids = new long[count];
    this.corrupt = new boolean[count];
    int taken = 0;
    int unwanted = 0;
    long end = Long.MAX_VALUE;
    TraceContext askedIn = null;
    boolean runEnded = false;
    Session asked = acquired.session();
    for (int c = 0; c < acquired.calls() && asked != null; c++) {
      Call call = acquired.call(c);
      if (call.status() != Status.OK) {
        continue;
      }
      int before = taken;
      boolean beyond = options.leadingRun() && runEnded;
      for (int i = 0; i < call.expected(); i++) {
        int block = c * acquired.chunk() + i;
        Status answered = call.blockStatus(i);
        runEnded |= answered == Status.MISS;
        Status status = answered;
        if (beyond) {
          // A block of an earlier call is nowhere.
          status = Status.MISS;
        } else if (answered == Status.OK) {
          status = map(asked, call, i, block);
        }
        if (status == Status.OK) {
          ids[taken++] = call.holdId(i);
        } else if (beyond || answered == Status.OK) {
          statuses[block] = (byte) status.code();
          tiers[block] = (byte) TierId.NONE.code();
          if (answered == Status.OK) {
            // From the end: there are no more leases than blocks.
            ids[count - ++unwanted] = call.holdId(i);
          }
        }
      }
      if (taken > before) {
        end = Math.min(end, call.value());
        askedIn = call.context();
      }
    }
    if (asked != null && unwanted > 0) {
      long[] back = Arrays.copyOfRange(ids, count - unwanted, count);
      asked.giveBack(Verb.RELEASE, back, unwanted);
    }
    this.granted = taken;
    this.endNs = taken == 0 ? Long.MIN_VALUE : end;
    this.context = askedIn;
    if (encoding != null) {
      decode(encoding, statuses);
    }
    this.blocks = Blocks.wrap(statuses, tiers);
    // The calls are still in use, so this cannot fail.
    this.session = asked != null && taken > 0 && asked.lifetime().beginUse() ? asked : null;
  }

  /** Puts decoded copies in place of the views of encoded blocks. */
  private void decode(BlockEncoding encoding, byte[] statuses) {
    for (int i = 0; i < views.length; i++) {
      MemorySegment view = views[i];
      if (view == null || !encoded[i]) {
        continue;
      }
      MemorySegment raw = Arena.ofAuto().allocate(encoding.rawBytes(), DECODED_ALIGNMENT);
      long checksum = BlockCoder.OF_THIS_MACHINE.decode(encoding, view, raw);
      if (checksum == BlockCoder.NONE || (int) checksum != checksums[i]) {
        corrupt[i] = true;
        anyCorrupt = true;
        statuses[i] = (byte) Status.CORRUPT.code();
      } else {
        views[i] = raw.asReadOnly();
        checksums[i] = Copies.checksum(raw);
        verify[i] = false;
      }
    }
  }

  /** Whether a view shows the encoded bytes of its block. */
  boolean isEncoded(int index) {
    return encoded[index];
  }

  /** Maps a leased block; OK when it is mapped. */
  private Status map(Session asked, Call call, int index, int block) {
    try {
      MemorySegment slab = asked.wires().slabs().get(call.slab(index), false);
      views[block] = slab.asSlice(call.offset(index), call.length(index));
      checksums[block] = call.checksum(index);
      encoded[block] = (call.flags(index) & CompletionDescriptor.BLOCK_FLAG_ENCODED) != 0;
      verify[block] = (call.flags(index) & CompletionDescriptor.BLOCK_FLAG_VERIFY) != 0;
      return Status.OK;
    } catch (IOException | IndexOutOfBoundsException e) {
      Log.warn("a lease could not be mapped", e);
      return Slabs.status(e);
    }
  }

  @Override
  public Status status() {
    return status;
  }

  @Override
  public String detail() {
    return detail;
  }

  @Override
  public Blocks blocks() {
    return blocks;
  }

  @Override
  public int count() {
    return blocks.count();
  }

  @Override
  public int granted() {
    return granted;
  }

  @Override
  public Status status(int index) {
    return blocks.status(index);
  }

  @Override
  public MemorySegment segment(int index) {
    MemorySegment view = views[index];
    if (view == null || blocks.status(index) != Status.OK) {
      throw new IllegalStateException("block " + index + " is not leased: " + blocks.status(index));
    }
    if (closed.get()) {
      throw new IllegalStateException("the leases are closed");
    }
    return view;
  }

  @Override
  public ByteBuffer buffer(int index) {
    return segment(index).asByteBuffer();
  }

  @Override
  public int checksum(int index) {
    return checksums[index];
  }

  @Override
  public boolean mustVerify(int index) {
    return verify[index];
  }

  @Override
  public long endNs() {
    return endNs;
  }

  @Override
  public boolean hasEnded() {
    Session some = session;
    return some == null || closed.get() || !some.lifetime().holdsLeases(endNs);
  }

  /** Whether the leases have ended, as far as shared memory tells. */
  boolean seemsEnded() {
    Session some = session;
    return some == null || closed.get() || !some.lifetime().seemsToHoldLeases(endNs);
  }

  /**
   * Whether the daemon that gave the leases may have ended, so that nothing that was read counts.
   */
  boolean isCutOff() {
    Session some = session;
    return some != null && some.lifetime().isCutOff();
  }

  @Override
  public boolean verify(int index) {
    return matches(index, Copies.checksum(segment(index)));
  }

  /**
   * Whether a leased block that was decoded is sound; notes it if not.
   *
   * @param decoded the answer of the coder
   */
  boolean matches(int index, long decoded) {
    return matches(index, decoded == BlockCoder.NONE ? ~checksums[index] : (int) decoded);
  }

  /** Whether bytes that were read of a leased block have its checksum; notes it if not. */
  boolean matches(int index, int checksum) {
    boolean same = checksum == checksums[index];
    if (!same && !hasEnded()) {
      corrupt[index] = true;
      anyCorrupt = true;
    }
    return same;
  }

  @Override
  public boolean verify() {
    for (int i = 0; i < views.length; i++) {
      if (corrupt[i] || (views[i] != null && !verify(i))) {
        return false;
      }
    }
    return granted == 0 || !hasEnded();
  }

  @Override
  public BatchResult release() {
    return release(options);
  }

  @Override
  public BatchResult release(Options releaseOptions) {
    Session some = session;
    if (some == null || !closed.compareAndSet(false, true)) {
      return new BatchResult(Status.OK, "", Blocks.wrap(new byte[0], new byte[0]));
    }
    Submitter submitter = operations.submitter();
    long deadlineNs = submitter.deadlineNs(releaseOptions);
    try {
      if (!anyCorrupt) {
        return submitter.await(release(some, 0, ids, granted, deadlineNs), Answers::batch);
      }
      boolean[] marks = corrupt.clone();
      long[] sound = ids(marks, false);
      long[] damaged = ids(marks, true);
      Operation ofSound = release(some, 0, sound, sound.length, deadlineNs);
      Operation ofDamaged =
          Operations.in(
              context,
              () ->
                  release(
                      some, RequestDescriptor.FLAG_CORRUPT, damaged, damaged.length, deadlineNs));
      return merged(
          marks,
          submitter.await(ofSound, Answers::batch),
          submitter.await(ofDamaged, Answers::batch));
    } finally {
      some.lifetime().endUse();
    }
  }

  private Operation release(Session some, int flags, long[] which, int count, long deadlineNs) {
    return operations.ids(Verb.RELEASE, flags, some, which, count, deadlineNs, null);
  }

  /** The ids of the leases on the blocks with a mark. */
  private long[] ids(boolean[] marks, boolean mark) {
    long[] some = new long[granted];
    int count = 0;
    int next = 0;
    for (int i = 0; i < views.length; i++) {
      if (views[i] != null) {
        if (marks[i] == mark) {
          some[count++] = ids[next];
        }
        next++;
      }
    }
    return Arrays.copyOf(some, count);
  }

  private BatchResult merged(boolean[] marks, BatchResult sound, BatchResult damaged) {
    Outcome all = new Outcome(granted);
    int next = 0;
    int nextSound = 0;
    int nextDamaged = 0;
    for (int i = 0; i < views.length; i++) {
      if (views[i] != null) {
        all.set(
            next++,
            marks[i] ? damaged.blocks().status(nextDamaged++) : sound.blocks().status(nextSound++),
            TierId.NONE);
      }
    }
    all.note(sound.status(), sound.detail());
    all.note(damaged.status(), damaged.detail());
    return all.result();
  }

  @Override
  public void close() {
    Session some = session;
    if (some != null && closed.compareAndSet(false, true)) {
      if (anyCorrupt) {
        boolean[] marks = corrupt.clone();
        long[] sound = ids(marks, false);
        long[] damaged = ids(marks, true);
        some.giveBack(Verb.RELEASE, sound, sound.length);
        some.giveBackCorrupt(damaged, damaged.length, context);
      } else {
        some.giveBack(Verb.RELEASE, ids, granted);
      }
      some.lifetime().endUse();
    }
  }
}

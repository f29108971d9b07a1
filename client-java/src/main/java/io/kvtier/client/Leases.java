package io.kvtier.client;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * Blocks leased for reading in place. Each view is valid until the leases are closed or have ended,
 * whichever comes first: what was read counts only when {@link #hasEnded} is still false after the
 * reading, and, for a block that {@link #mustVerify}, when {@link #verify(int)} is true then. Close
 * it, also when nothing was granted.
 *
 * <p>The views are thread-safe to read. Memory stays mapped until the leases are closed, even after
 * the daemon's death.
 */
public final class Leases implements Grant {
  private final Operations operations;
  private final @Nullable Session session;
  private final Options options;
  private final Status status;
  private final String detail;
  private final Blocks blocks;
  private final @Nullable MemorySegment[] views;
  private final int[] checksums;
  private final boolean[] verify;
  private final long[] ids;
  private final int granted;
  private final long endNs;

  /** What they were acquired in: damage is told with its reader, whoever closes them. */
  private final @Nullable TraceContext context;

  private final AtomicBoolean closed = new AtomicBoolean();
  private final boolean[] corrupt;
  private volatile boolean anyCorrupt;

  private Leases(
      Operations operations,
      @Nullable Session session,
      Options options,
      Status status,
      String detail,
      Blocks blocks,
      @Nullable MemorySegment[] views,
      int[] checksums,
      boolean[] verify,
      long[] ids,
      int granted,
      long endNs,
      @Nullable TraceContext context) {
    this.operations = operations;
    this.session = session;
    this.options = options;
    this.status = status;
    this.detail = detail;
    this.blocks = blocks;
    this.views = views;
    this.checksums = checksums;
    this.verify = verify;
    this.ids = ids;
    this.granted = granted;
    this.endNs = endNs;
    this.context = context;
    this.corrupt = new boolean[views.length];
  }

  /** Reads the answer to ACQUIRE, and maps the slabs that it names. */
  static Leases read(Operations operations, Batch batch, Options options) {
    int count = batch.count;
    Blocks blocks = batch.blocks();
    @Nullable MemorySegment[] views = new MemorySegment[count];
    int[] checksums = new int[count];
    boolean[] verify = new boolean[count];
    long[] ids = new long[count];
    int granted = 0;
    long endNs = Long.MAX_VALUE;
    TraceContext context = null;
    boolean runEnded = false;
    long[] unwanted = new long[0];
    Session session = batch.session;
    for (int c = 0; c < batch.calls.length && session != null; c++) {
      Call call = batch.calls[c];
      if (call.status != Status.OK) {
        continue;
      }
      int chunkGranted = 0;
      boolean beyond = options.leadingRun() && runEnded;
      for (int i = 0; i < call.expected; i++) {
        int block = c * batch.chunk + i;
        Status answered = call.blockStatus(i);
        runEnded |= answered == Status.MISS;
        if (beyond) {
          // A block of a chunk before it is nowhere.
          blocks.set(block, Status.MISS, TierId.NONE);
          if (answered == Status.OK) {
            unwanted = append(unwanted, call.holdId(i));
          }
          continue;
        }
        if (answered != Status.OK) {
          continue;
        }
        try {
          MemorySegment slab = session.wires().slabs().get(call.slab(i), false);
          views[block] = slab.asSlice(call.offset(i), call.length(i));
        } catch (IOException | IndexOutOfBoundsException e) {
          Log.warn("a lease could not be mapped", e);
          unwanted = append(unwanted, call.holdId(i));
          blocks.set(block, Slabs.status(e), TierId.NONE);
          continue;
        }
        ids[granted++] = call.holdId(i);
        chunkGranted++;
        checksums[block] = call.checksum(i);
        verify[block] = (call.flags(i) & CompletionDescriptor.BLOCK_FLAG_VERIFY) != 0;
      }
      if (chunkGranted > 0) {
        endNs = Math.min(endNs, call.value);
        context = call.context;
      }
    }
    if (session != null && unwanted.length > 0) {
      session.giveBack(Verb.RELEASE, unwanted, unwanted.length);
    }
    // The calls are still in use, so this cannot fail.
    Session used = session != null && granted > 0 && session.beginUse() ? session : null;
    return new Leases(
        operations,
        used,
        options,
        batch.status(),
        batch.detail(),
        blocks,
        views,
        checksums,
        verify,
        ids,
        granted,
        granted == 0 ? Long.MIN_VALUE : endNs,
        context);
  }

  private static long[] append(long[] ids, long id) {
    long[] longer = Arrays.copyOf(ids, ids.length + 1);
    longer[ids.length] = id;
    return longer;
  }

  /** OK when the operation was carried out, whatever its blocks say; otherwise why not. */
  public Status status() {
    return status;
  }

  /** Why the operation was not carried out, in words. */
  public String detail() {
    return detail;
  }

  /** The blocks' outcomes; OK: leased. */
  public Blocks blocks() {
    return blocks;
  }

  /** How many blocks were asked for. */
  public int count() {
    return blocks.count();
  }

  /** How many are leased. */
  public int granted() {
    return granted;
  }

  public Status status(int index) {
    return blocks.status(index);
  }

  /** A leased block's bytes, read-only. */
  public MemorySegment segment(int index) {
    MemorySegment view = views[index];
    if (view == null) {
      throw new IllegalStateException("block " + index + " is not leased: " + blocks.status(index));
    }
    if (closed.get()) {
      throw new IllegalStateException("the leases are closed");
    }
    return view;
  }

  /** A leased block's bytes, read-only. */
  public ByteBuffer buffer(int index) {
    return segment(index).asByteBuffer();
  }

  /** The CRC32C that the daemon made of a leased block's bytes. */
  public int checksum(int index) {
    return checksums[index];
  }

  /** Whether another living process was once allowed to write where the block is. */
  public boolean mustVerify(int index) {
    return verify[index];
  }

  /** When the leases end, on the clock of {@link System#nanoTime}. */
  public long endNs() {
    return endNs;
  }

  /** Whether what is read now no longer counts. */
  public boolean hasEnded() {
    Session some = session;
    return some == null || closed.get() || !some.holdsLeases(endNs);
  }

  /** As {@link #hasEnded}, as far as that is seen without asking the kernel. */
  boolean seemsEnded() {
    Session some = session;
    return some == null || closed.get() || !some.seemsToHoldLeases(endNs);
  }

  /** Whether nothing that was read counts, whatever was said of it before. */
  boolean isCutOff() {
    Session some = session;
    return some != null && some.isCutOff();
  }

  /**
   * Whether a leased block's bytes match their checksum. Where they do not, the release tells the
   * daemon, which looks for itself.
   */
  public boolean verify(int index) {
    return matches(index, Copies.checksum(segment(index)));
  }

  /** Whether what was read of a leased block, which has this checksum, is what it shall be. */
  boolean matches(int index, int checksum) {
    boolean same = checksum == checksums[index];
    if (!same && !hasEnded()) {
      corrupt[index] = true;
      anyCorrupt = true;
    }
    return same;
  }

  /** Whether all leased blocks match their checksums, and the leases had not ended by then. */
  public boolean verify() {
    for (int i = 0; i < views.length; i++) {
      if (views[i] != null && !verify(i)) {
        return false;
      }
    }
    return granted == 0 || !hasEnded();
  }

  /** As the other, with the timeout that the leases were acquired with. */
  public BatchResult release() {
    return release(options);
  }

  /**
   * Ends the leases and waits for the daemon's word.
   *
   * @param releaseOptions of which the timeout counts
   * @return per lease granted, in order: OK, or STALE where it had ended before
   */
  public BatchResult release(Options releaseOptions) {
    Session some = session;
    if (some == null || !closed.compareAndSet(false, true)) {
      return new BatchResult(Status.OK, "", new Blocks(0));
    }
    long deadlineNs = operations.deadlineNs(releaseOptions);
    try {
      if (!anyCorrupt) {
        return operations.await(
            release(some, 0, ids, granted, deadlineNs), Operations::batchResult);
      }
      boolean[] marks = corrupt.clone();
      long[] sound = ids(marks, false);
      long[] damaged = ids(marks, true);
      Batch ofSound = release(some, 0, sound, sound.length, deadlineNs);
      Batch ofDamaged =
          RequestContext.resume(
              context,
              () ->
                  release(
                      some, RequestDescriptor.FLAG_CORRUPT, damaged, damaged.length, deadlineNs));
      return merged(
          marks,
          operations.await(ofSound, Operations::batchResult),
          operations.await(ofDamaged, Operations::batchResult));
    } finally {
      some.endUse();
    }
  }

  private Batch release(Session some, int flags, long[] which, int count, long deadlineNs) {
    return operations.ids(Verb.RELEASE, flags, some, which, count, deadlineNs, null);
  }

  /** The ids of the leases of the blocks that are marked so. */
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
    Blocks all = new Blocks(granted);
    int next = 0;
    int nextSound = 0;
    int nextDamaged = 0;
    for (int i = 0; i < views.length; i++) {
      if (views[i] != null) {
        all.set(
            next++,
            marks[i] ? damaged.blocks().status(nextDamaged++) : sound.blocks().status(nextSound++));
      }
    }
    BatchResult first = sound.status() == Status.OK ? damaged : sound;
    return new BatchResult(first.status(), first.detail(), all);
  }

  /** Ends the leases without waiting. */
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
      some.endUse();
    }
  }
}

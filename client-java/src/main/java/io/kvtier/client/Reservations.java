package io.kvtier.client;

import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Slots to write blocks into. Write each whole block, then commit; never write to a slot after its
 * commit. Closing gives back what was not committed. The slots stay reserved until then, also when
 * the client is closed meanwhile.
 */
public final class Reservations implements Grant {
  private final Operations operations;
  private final @Nullable Session session;
  private final Options options;
  private final Status status;
  private final String detail;
  private final Blocks blocks;
  private final @Nullable MemorySegment[] views;
  private final long[] ids;
  private final int granted;
  private final AtomicBoolean settled = new AtomicBoolean();

  private Reservations(
      Operations operations,
      @Nullable Session session,
      Options options,
      Status status,
      String detail,
      Blocks blocks,
      @Nullable MemorySegment[] views,
      long[] ids,
      int granted) {
    this.operations = operations;
    this.session = session;
    this.options = options;
    this.status = status;
    this.detail = detail;
    this.blocks = blocks;
    this.views = views;
    this.ids = ids;
    this.granted = granted;
  }

  /** Reads the answer to RESERVE, and maps the slabs that it names. */
  static Reservations read(Operations operations, Batch batch, Options options) {
    int count = batch.count;
    Blocks blocks = batch.blocks();
    @Nullable MemorySegment[] views = new MemorySegment[count];
    long[] ids = new long[count];
    int granted = 0;
    Session session = batch.session;
    boolean writing = session != null && session.beginWriting();
    for (int c = 0; c < batch.calls.length && session != null; c++) {
      Call call = batch.calls[c];
      for (int i = 0; call.status == Status.OK && i < call.expected; i++) {
        if (call.blockStatus(i) != Status.OK) {
          continue;
        }
        int block = c * batch.chunk + i;
        if (!writing) {
          blocks.set(block, Status.UNAVAILABLE, TierId.NONE);
          continue;
        }
        try {
          MemorySegment slab = session.wires().slabs().get(call.slab(i), true);
          views[block] = slab.asSlice(call.offset(i), call.length(i));
          ids[granted++] = call.holdId(i);
        } catch (IOException | IndexOutOfBoundsException e) {
          Log.warn("a reservation could not be mapped", e);
          session.giveBack(Verb.ABORT, new long[] {call.holdId(i)}, 1);
          blocks.set(block, Slabs.status(e), TierId.NONE);
        }
      }
    }
    Session used = session != null && granted > 0 && session.beginUse() ? session : null;
    if (session != null && writing && used == null) {
      session.endWriting();
    }
    return new Reservations(
        operations, used, options, batch.status(), batch.detail(), blocks, views, ids, granted);
  }

  /** OK when the operation was carried out, whatever its blocks say; otherwise why not. */
  public Status status() {
    return status;
  }

  /** Why the operation was not carried out, in words. */
  public String detail() {
    return detail;
  }

  /** The blocks' outcomes; OK: reserved. EXISTS and PENDING: nothing to do. */
  public Blocks blocks() {
    return blocks;
  }

  /** How many blocks were asked for. */
  public int count() {
    return blocks.count();
  }

  /** How many are reserved. */
  public int granted() {
    return granted;
  }

  public Status status(int index) {
    return blocks.status(index);
  }

  public boolean isReserved(int index) {
    return views[index] != null;
  }

  /** Where to write a reserved block. */
  public MemorySegment segment(int index) {
    MemorySegment view = views[index];
    if (view == null) {
      throw new IllegalStateException(
          "block " + index + " is not reserved: " + blocks.status(index));
    }
    if (settled.get()) {
      throw new IllegalStateException("the reservations are committed or given back");
    }
    return view;
  }

  /**
   * Makes the reserved blocks visible.
   *
   * @param commitOptions of which the timeout counts
   * @return per block asked for: OK once it is visible, STALE when the reservation had ended, or
   *     why it was not reserved
   */
  public CompletableFuture<BatchResult> commit(Options commitOptions) {
    settle();
    return operations.async(listener -> startCommit(commitOptions, listener), this::merge);
  }

  /** As the other, with the timeout that the reservation had. */
  public CompletableFuture<BatchResult> commit() {
    return commit(options);
  }

  /** As {@link #commit(Options)}, waiting for it. */
  public BatchResult commitAndWait(Options commitOptions) {
    settle();
    return operations.await(startCommit(commitOptions, null), this::merge);
  }

  /** As the other, with the timeout that the reservation had. */
  public BatchResult commitAndWait() {
    return commitAndWait(options);
  }

  /** The commit will follow soon. */
  void announceCommit() {
    Session some = session;
    if (some != null) {
      some.announce();
    }
  }

  /**
   * As {@link #commit(Options)}, to be waited for with {@link #await}, with the checksum of each
   * block that was reserved.
   *
   * @param checksums per block asked for; those of blocks that were not reserved are not read
   */
  Batch beginCommit(int[] checksums, long deadlineNs) {
    settle();
    Session some = session;
    if (some == null) {
      return operations.nothing(Verb.COMMIT, null);
    }
    long[] pairs = new long[2 * granted];
    int next = 0;
    for (int i = 0; i < views.length; i++) {
      if (views[i] != null) {
        pairs[2 * next] = ids[next];
        pairs[2 * next + 1] = Integer.toUnsignedLong(checksums[i]);
        next++;
      }
    }
    return operations.ids(
        Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, some, pairs, granted, deadlineNs, null);
  }

  /** Of the reserved blocks; null where there are none. */
  @Nullable Session session() {
    return session;
  }

  ValueResult awaitValue(Batch batch) {
    return operations.await(batch, Operations::valueResult);
  }

  BatchResult await(Batch commit) {
    return operations.await(commit, this::merge);
  }

  private void settle() {
    if (!settled.compareAndSet(false, true)) {
      throw new IllegalStateException("the reservations are committed or given back already");
    }
    Session some = session;
    if (some != null) {
      some.endWriting();
    }
  }

  private Batch startCommit(Options commitOptions, @Nullable Consumer<Batch> listener) {
    Session some = session;
    long deadlineNs = operations.deadlineNs(commitOptions);
    return some == null
        ? operations.nothing(Verb.COMMIT, listener)
        : operations.ids(Verb.COMMIT, 0, some, ids, granted, deadlineNs, listener);
  }

  private BatchResult merge(Batch commit) {
    Blocks merged = new Blocks(count());
    Blocks committed = commit.blocks();
    int next = 0;
    for (int i = 0; i < merged.count(); i++) {
      if (views[i] == null) {
        merged.set(i, blocks.status(i), blocks.tier(i));
      } else {
        merged.set(i, committed.status(next), committed.tier(next));
        next++;
      }
    }
    Session some = session;
    if (some != null) {
      some.endUse();
    }
    return status == Status.OK
        ? new BatchResult(commit.status(), commit.detail(), merged)
        : new BatchResult(status, detail, merged);
  }

  /** Gives back the slots, without waiting; does nothing after a commit. */
  public void abort() {
    Session some = session;
    if (settled.compareAndSet(false, true) && some != null) {
      some.giveBack(Verb.ABORT, ids, granted);
      some.endWriting();
      some.endUse();
    }
  }

  @Override
  public void close() {
    abort();
  }
}

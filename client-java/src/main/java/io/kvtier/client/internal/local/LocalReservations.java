package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Blocks;
import io.kvtier.client.Options;
import io.kvtier.client.Reservations;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.session.Slabs;
import io.kvtier.client.internal.shared.Log;
import io.kvtier.protocol.CompletionDescriptor;
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

/** Reserved slots of one session. */
final class LocalReservations implements Reservations, Grant {
  private final Operations operations;
  private final @Nullable Session session;
  private final Options options;
  private final Status status;
  private final String detail;
  private final Blocks blocks;
  private final @Nullable MemorySegment[] views;
  private final byte[] statuses;
  private final boolean[] encoded;
  private final long[] ids;
  private int granted;
  private final AtomicBoolean settled = new AtomicBoolean();

  /** Reads the answer to RESERVE, and maps the slabs that it names. */
  LocalReservations(Operations operations, Operation reserved, Options options) {
    this.operations = operations;
    this.options = options;
    this.status = reserved.status();
    this.detail = reserved.detail();
    int count = reserved.count();
    this.statuses = new byte[count];
    byte[] tiers = new byte[count];
    reserved.outcomes(statuses, tiers);
    this.views = new MemorySegment[count];
    this.ids = new long[count];
    this.encoded = new boolean[count];
    int taken = 0;
    Session asked = reserved.session();
    boolean writing = asked != null && asked.lifetime().beginWriting();
    for (int c = 0; c < reserved.calls() && asked != null; c++) {
      Call call = reserved.call(c);
      for (int i = 0; call.status() == Status.OK && i < call.expected(); i++) {
        if (call.blockStatus(i) != Status.OK) {
          continue;
        }
        int block = c * reserved.chunk() + i;
        Status status = writing ? map(asked, call, i, block) : Status.UNAVAILABLE;
        if (status == Status.OK) {
          ids[taken++] = call.holdId(i);
        } else {
          statuses[block] = (byte) status.code();
          tiers[block] = (byte) TierId.NONE.code();
        }
      }
    }
    this.granted = taken;
    this.blocks = Blocks.wrap(statuses, tiers);
    this.session = asked != null && taken > 0 && asked.lifetime().beginUse() ? asked : null;
    if (asked != null && writing && session == null) {
      asked.lifetime().endWriting();
    }
  }

  /** Maps a reserved block, or gives it back; OK when it is mapped. */
  private Status map(Session asked, Call call, int index, int block) {
    try {
      MemorySegment slab = asked.wires().slabs().get(call.slab(index), true);
      views[block] = slab.asSlice(call.offset(index), call.length(index));
      encoded[block] = (call.flags(index) & CompletionDescriptor.BLOCK_FLAG_ENCODED) != 0;
      return Status.OK;
    } catch (IOException | IndexOutOfBoundsException e) {
      Log.warn("a reservation could not be mapped", e);
      asked.giveBack(Verb.ABORT, new long[] {call.holdId(index)}, 1);
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
  public boolean isReserved(int index) {
    return views[index] != null;
  }

  @Override
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

  @Override
  public CompletableFuture<BatchResult> commit(Options commitOptions) {
    settle();
    return operations
        .submitter()
        .async(listener -> startCommit(commitOptions, listener), this::merge);
  }

  @Override
  public CompletableFuture<BatchResult> commit() {
    return commit(options);
  }

  @Override
  public BatchResult commitAndWait(Options commitOptions) {
    settle();
    return operations.submitter().await(startCommit(commitOptions, null), this::merge);
  }

  @Override
  public BatchResult commitAndWait() {
    return commitAndWait(options);
  }

  /** Tells the daemon that the commit will follow soon. */
  void announceCommit() {
    Session some = session;
    if (some != null) {
      some.announce();
    }
  }

  /**
   * Begins a commit that {@link #await} waits for, with the checksum of each reserved block.
   *
   * @param checksums per block asked for; those of blocks that were not reserved are not read
   */
  Operation beginCommit(int[] checksums, long deadlineNs) {
    settle();
    Session some = session;
    if (some == null) {
      return Submitter.nothing(Verb.COMMIT, null);
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

  /** Whether the slot of a reserved block is for its encoded form. */
  boolean isEncoded(int index) {
    return encoded[index];
  }

  /** Gives the slot of a block back that does not fit: the block is TOO_LARGE. */
  void giveBack(int index) {
    int place = 0;
    for (int i = 0; i < index; i++) {
      place += views[i] == null ? 0 : 1;
    }
    Session some = session;
    if (views[index] == null || some == null) {
      throw new IllegalStateException("block " + index + " is not reserved");
    }
    some.giveBack(Verb.ABORT, new long[] {ids[place]}, 1);
    System.arraycopy(ids, place + 1, ids, place, granted - place - 1);
    granted--;
    views[index] = null;
    statuses[index] = (byte) Status.TOO_LARGE.code();
  }

  /** The session of the reserved blocks; null where there are none. */
  @Nullable Session session() {
    return session;
  }

  BatchResult await(Operation commit) {
    return operations.submitter().await(commit, this::merge);
  }

  private void settle() {
    if (!settled.compareAndSet(false, true)) {
      throw new IllegalStateException("the reservations are committed or given back already");
    }
    Session some = session;
    if (some != null) {
      some.lifetime().endWriting();
    }
  }

  private Operation startCommit(Options commitOptions, @Nullable Consumer<Operation> listener) {
    Session some = session;
    long deadlineNs = operations.submitter().deadlineNs(commitOptions);
    return some == null
        ? Submitter.nothing(Verb.COMMIT, listener)
        : operations.ids(Verb.COMMIT, 0, some, ids, granted, deadlineNs, listener);
  }

  /** The outcomes of a commit in the order of the blocks asked for. */
  private BatchResult merge(Operation commit) {
    byte[] statuses = new byte[count()];
    byte[] tiers = new byte[count()];
    byte[] committed = new byte[commit.count()];
    byte[] committedTiers = new byte[commit.count()];
    commit.outcomes(committed, committedTiers);
    int next = 0;
    for (int i = 0; i < statuses.length; i++) {
      if (views[i] == null) {
        statuses[i] = (byte) blocks.status(i).code();
        tiers[i] = (byte) blocks.tier(i).code();
      } else {
        statuses[i] = committed[next];
        tiers[i] = committedTiers[next];
        next++;
      }
    }
    Session some = session;
    if (some != null) {
      some.lifetime().endUse();
    }
    Blocks merged = Blocks.wrap(statuses, tiers);
    return status == Status.OK
        ? new BatchResult(commit.status(), commit.detail(), merged)
        : new BatchResult(status, detail, merged);
  }

  @Override
  public void abort() {
    Session some = session;
    if (settled.compareAndSet(false, true) && some != null) {
      some.giveBack(Verb.ABORT, ids, granted);
      some.lifetime().endWriting();
      some.lifetime().endUse();
    }
  }

  @Override
  public void close() {
    abort();
  }
}

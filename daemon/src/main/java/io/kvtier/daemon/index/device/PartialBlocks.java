package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Counter;
import java.util.function.LongSupplier;

/**
 * Blocks that are put together from copies of their layers and heads: by one rank of an engine that
 * copies layer by layer, or by several ranks that have a shard each. Ranks may belong to different
 * sessions, and copy to the block's slot by OFFLOAD, or by RESERVE and COMMIT of a shard. A block
 * becomes visible when all of its bytes have arrived. It is given up if a copy fails, or if the
 * missing bytes do not come. Confined to the index.
 */
public final class PartialBlocks {
  /** The outcome of an attempt to add bytes to a block. */
  public enum Join {
    /** Nobody puts the block together, or its assembly has failed. */
    NOT_PARTIAL,
    /** These bytes are there, or somebody copies them. */
    CLAIMED,
    /** The caller can copy its bytes to the block's slot. */
    JOINED
  }

  private static final long LOOK_EVERY_NS = 100_000_000;

  private final BlockStore store;
  private final Counters counters;
  private final LongSupplier clock;
  private final Assemblies assemblies;
  private final int perSessionMax;
  private final long restWithinNs;
  private long nextLookNs;

  /**
   * Without a block.
   *
   * @param most how many blocks there can be
   */
  PartialBlocks(IndexCore core, BlockStore store, int most) {
    this.store = store;
    counters = core.counters();
    clock = core.clock();
    assemblies = new Assemblies(most, core.limits().sessionsMax());
    perSessionMax = core.limits().holdsPerSessionMax();
    restWithinNs = core.limits().times().leaseNs();
  }

  /**
   * Begins to put a fresh block together.
   *
   * @param part what the caller is about to copy
   * @return false when the session, or the daemon, has too many such blocks
   */
  public boolean begin(Session session, int block, PartOfBlock part) {
    int assembly =
        assemblies.size(session) >= perSessionMax
            ? Assemblies.NONE
            : assemblies.begin(block, session, part.shard);
    return assembly != Assemblies.NONE && claim(assembly, part);
  }

  /**
   * Adds bytes to a block that somebody has begun to put together.
   *
   * @param part what the caller is about to copy
   */
  public Join join(int block, PartOfBlock part) {
    int assembly = assemblies.find(block);
    if (assembly == Assemblies.NONE || assemblies.isFailed(assembly)) {
      return Join.NOT_PARTIAL;
    }
    return claim(assembly, part) ? Join.JOINED : Join.CLAIMED;
  }

  private boolean claim(int assembly, PartOfBlock part) {
    assemblies.setEnd(assembly, clock.getAsLong() + restWithinNs);
    return assemblies.claim(assembly, part.shard, part.fromLayer, part.toLayer);
  }

  /** Whether a block is being put together. */
  public boolean has(int block) {
    return assemblies.find(block) != Assemblies.NONE;
  }

  /** Whether a block that is being put together will not be whole. */
  public boolean isLost(int block) {
    int assembly = assemblies.find(block);
    return assembly != Assemblies.NONE && assemblies.isFailed(assembly);
  }

  /** Bytes that were claimed won't come: the block can't be whole. */
  public void leave(int block) {
    int assembly = required(block);
    assemblies.endUse(assembly);
    assemblies.fail(assembly);
    settle(assembly);
  }

  /**
   * Bytes that were claimed have arrived, copied by a GPU.
   *
   * @return whether the block is whole
   */
  boolean copied(int block) {
    int assembly = required(block);
    assemblies.endUse(assembly);
    return settle(assembly);
  }

  /**
   * Bytes that were claimed have arrived, written by a client.
   *
   * @return whether the block is whole
   */
  public boolean written(int block) {
    int assembly = required(block);
    assemblies.setClientBytes(assembly);
    assemblies.endUse(assembly);
    return settle(assembly);
  }

  private int required(int block) {
    int assembly = assemblies.find(block);
    if (assembly == Assemblies.NONE) {
      throw new IllegalStateException("block " + block + " is not being put together");
    }
    return assembly;
  }

  /**
   * Completes a block that is whole, or drops one that failed; any other block waits.
   *
   * @return whether the block is whole
   */
  private boolean settle(int assembly) {
    int block = assemblies.block(assembly);
    if (assemblies.isWhole(assembly)) {
      boolean hasClientBytes = assemblies.hasClientBytes(assembly);
      assemblies.end(assembly);
      if (hasClientBytes) {
        store.commit(block);
      } else {
        store.arrived(block);
      }
      return true;
    }
    if (assemblies.isUnused(assembly) && assemblies.isFailed(assembly)) {
      assemblies.end(assembly);
      if (store.first().state(block) == CopyState.RESERVED) {
        store.abandon(block);
      }
    }
    return false;
  }

  /** Drops the blocks that a session has begun to put together. */
  void close(Session session) {
    for (int one = 0; one < assemblies.highWater() && assemblies.size(session) > 0; one++) {
      if (assemblies.isOf(one, session)) {
        assemblies.fail(one);
        assemblies.disown(one);
        settle(one);
      }
    }
  }

  /** Drops blocks whose missing bytes do not come. */
  void checkTime(long nowNs) {
    if (nowNs < nextLookNs) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    for (int one = 0; one < assemblies.highWater() && assemblies.size() > 0; one++) {
      if (assemblies.isOverdue(one, nowNs)) {
        assemblies.fail(one);
        settle(one);
        counters.add(Counter.PARTIAL_EXPIRED, 1);
      }
    }
  }

  /** Whether any block waits for bytes, which could come too late. */
  boolean hasDeadlines() {
    return assemblies.size() > 0;
  }
}

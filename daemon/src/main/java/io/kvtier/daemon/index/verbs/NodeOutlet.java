package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.space.HandOverOrder;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import java.lang.foreign.MemorySegment;

/**
 * Gives the blocks of the first tier to other nodes: their order, and a lease of each while it is
 * pushed. This counts neither as a use nor as a get. Confined to the index.
 */
final class NodeOutlet {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final BlockStore store;
  private final ResidentTier first;
  private final HoldTable holds;
  private final Holdings holdings;

  NodeOutlet(IndexCore core, SessionParts parts, BlockStore store, Holdings holdings) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    holds = parts.holds();
    this.store = store;
    this.holdings = holdings;
    first = store.first();
  }

  /** All blocks of the first tier, those that are worth most first. */
  int[] rank() {
    return new HandOverOrder(directory, first).blocks();
  }

  /** Keeps a block of the first tier where it is. */
  NodeCall.Keeping keep(Session session, int block) {
    boolean isHere =
        block < directory.highWater()
            && directory.isUsed(block)
            && directory.isLinked(block)
            && first.isResident(block);
    if (!isHere || session.ended) {
      return new NodeCall.Keeping.Gone();
    }
    int hold = holdings.leaseForNode(session, block);
    if (hold == HoldTable.NONE) {
      return new NodeCall.Keeping.Busy();
    }
    store.pin(block);
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    int parent = directory.parentBlock(block);
    int slot = first.slot(block);
    return new NodeCall.Keeping.Kept(
        holds.id(hold),
        namespace.high(),
        namespace.low(),
        namespace.text(),
        directory.group(block),
        key(block),
        parent >= 0 ? key(parent) : MemorySegment.NULL,
        directory.parent(block),
        directory.depth(block),
        directory.importance(block),
        directory.has(Directory.FLAG_ENCODED, block),
        first.slots().regionOf(slot),
        first.slots().offsetOf(slot),
        namespaces.storedBytes(directory, block),
        directory.checksum(block));
  }

  private MemorySegment key(int block) {
    byte[] key = new byte[Protocol.KEY_BYTES_MAX];
    directory.copyKey(block, key);
    return MemorySegment.ofArray(key).asSlice(0, directory.keyBytes(block));
  }

  /** Ends the lease of a block that was kept. */
  void given(Session session, NodeCall.Given given) {
    holdings.endLease(session, given.lease(), given.isDamaged());
    if (given.isTaken()) {
      counters.add(Counter.NODE_PUSHED, 1);
      counters.add(Counter.NODE_PUSHED_BYTES, given.length());
    }
  }
}

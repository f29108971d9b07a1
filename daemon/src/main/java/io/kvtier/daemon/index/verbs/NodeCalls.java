package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.OwnFind;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What other nodes ask: which blocks are in the first tier, and leases of these. {@link
 * NodeFollowers} has the blocks that they expect, {@link NodeIntake} what they push, {@link
 * NodeOutlet} what is pushed to them. A node sees the namespaces of its session's tenant. It does
 * not count as a client: what engines look up and find stays a figure of its own. Confined to the
 * index.
 */
public final class NodeCalls {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final BlockStore store;
  private final ResidentTier first;
  private final HoldTable holds;
  private final Holdings holdings;
  private final NodeIntake intake;
  private final NodeOutlet outlet;
  private final NodeFollowers followers;

  NodeCalls(
      IndexCore core,
      SessionParts parts,
      BlockStore store,
      Holdings holdings,
      NodeIntake intake,
      NodeOutlet outlet,
      NodeFollowers followers) {
    this.intake = intake;
    this.outlet = outlet;
    this.followers = followers;
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    holds = parts.holds();
    this.store = store;
    this.holdings = holdings;
    first = store.first();
  }

  /**
   * Carries a call out. A call of a session that has ended is answered, and finds and holds
   * nothing.
   */
  public void handle(Session session, NodeCall call) {
    switch (call) {
      case NodeCall.Find(var blocks, var answer) ->
          answer.accept(find(namespaceOf(session, blocks), blocks));
      case NodeCall.Lease(var blocks, int blockBytes, var answer) ->
          answer.accept(lease(session, blocks, blockBytes));
      case NodeCall.Release(var leases, boolean isDamaged) -> {
        for (int i = 0; i < leases.limit(); i++) {
          holdings.endLease(session, leases.get(i), isDamaged);
        }
      }
      case NodeCall.Follow follow -> followers.follow(session, follow);
      case NodeCall.Unfollow(var follow, boolean isDamaged, var ended) -> {
        followers.unfollow(session, follow, isDamaged);
        ended.run();
      }
      case NodeCall.Introduce introduce ->
          introduce.answer().accept(intake.introduce(session, introduce));
      case NodeCall.Reserve(var block, var answer) -> answer.accept(intake.reserve(session, block));
      case NodeCall.Commit(long reservation, int checksum, var answer) ->
          answer.accept(intake.commit(session, reservation, checksum));
      case NodeCall.Abort(long reservation, boolean isDamaged) -> {
        counters.add(Counter.NODE_TAKE_CORRUPT, isDamaged ? 1 : 0);
        holdings.endReservation(session, reservation);
      }
      case NodeCall.Rank(var answer) -> answer.accept(outlet.rank());
      case NodeCall.Keep(int block, var answer) -> answer.accept(outlet.keep(session, block));
      case NodeCall.Given given -> outlet.given(session, given);
    }
  }

  /** The namespace of blocks; null if the session must not see it, or has ended. */
  private Namespaces.@Nullable Namespace namespaceOf(Session session, NodeCall.Blocks blocks) {
    if (session.ended) {
      return null;
    }
    Namespaces.Namespace named = namespaces.byFingerprint(blocks.high(), blocks.low());
    return named == null || named.tenant() != session.tenant() ? null : named;
  }

  /** Carries out a question of a part of this daemon. */
  public void handle(OwnFind find) {
    Namespaces.Namespace namespace = find.namespace().apply(namespaces);
    if (namespace == null) {
      find.answer().accept(null);
      return;
    }
    NodeCall.Blocks blocks =
        new NodeCall.Blocks(
            namespace.high(),
            namespace.low(),
            find.group(),
            find.keyBytes(),
            find.count(),
            find.keys());
    find.answer()
        .accept(new OwnFind.Answer(namespace.high(), namespace.low(), find(namespace, blocks)));
  }

  private NodeCall.Found find(Namespaces.@Nullable Namespace namespace, NodeCall.Blocks blocks) {
    byte[] places = new byte[blocks.count()];
    long loadNs = 0;
    boolean isRun = true;
    for (int i = 0; namespace != null && i < places.length; i++) {
      int block = find(namespace, blocks, i);
      ResidentTier tier = block == Directory.NONE ? null : tierOf(block);
      places[i] = tier == null ? NodeCall.ABSENT : tier == first ? NodeCall.FIRST : NodeCall.LOWER;
      isRun &= tier != null;
      if (isRun && tier != null && tier != first) {
        loadNs +=
            store
                .lower()
                .at(tier.number())
                .estimatedReadNs(namespaces.storedBytes(directory, block));
      }
    }
    return new NodeCall.Found(ByteBuffer.wrap(places), loadNs);
  }

  private @Nullable ResidentTier tierOf(int block) {
    return first.isResident(block) ? first : store.stack().storedIn(block);
  }

  /** The bytes of pushed blocks, and the blocks that are expected from here, for the counters. */
  void publishGauges() {
    intake.publishGauges();
    counters.set(Counter.GAUGE_FOLLOWED, followers.size());
  }

  private int find(Namespaces.Namespace namespace, NodeCall.Blocks blocks, int i) {
    return directory.find(
        namespace.id(), blocks.group(), blocks.keyBytes(), blocks.keys(), blocks.at(i));
  }

  private List<NodeCall.Leased> lease(Session session, NodeCall.Blocks blocks, int blockBytes) {
    Namespaces.Namespace namespace = namespaceOf(session, blocks);
    List<NodeCall.Leased> leased = new ArrayList<>(blocks.count());
    for (int i = 0; i < blocks.count(); i++) {
      int block = namespace == null ? Directory.NONE : find(namespace, blocks, i);
      leased.add(lease(session, namespace, block, blockBytes));
    }
    return leased;
  }

  private NodeCall.Leased lease(
      Session session, Namespaces.@Nullable Namespace namespace, int block, int blockBytes) {
    if (namespace == null
        || block == Directory.NONE
        || namespaces.storedBytes(directory, block) != blockBytes
        || !first.isResident(block)) {
      return new NodeCall.Leased.Absent();
    }
    int hold = holdings.leaseForNode(session, block);
    if (hold == HoldTable.NONE) {
      return new NodeCall.Leased.Busy();
    }
    store.lease(block);
    counters.add(Counter.NODE_SERVED, 1);
    counters.add(Counter.NODE_SERVED_BYTES, blockBytes);
    int slot = first.slot(block);
    return new NodeCall.Leased.Here(
        holds.id(hold),
        first.slots().regionOf(slot),
        first.slots().offsetOf(slot),
        blockBytes,
        directory.checksum(block));
  }
}

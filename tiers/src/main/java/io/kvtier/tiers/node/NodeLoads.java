package io.kvtier.tiers.node;

import io.kvtier.tiers.object.ObjectKey;
import java.util.List;
import java.util.function.Supplier;

/**
 * Estimates how long it would take to fetch some blocks: each comes from the node that would
 * deliver it first, and the nodes deliver at the same time. Reused for each estimate. Confined to
 * the index.
 */
public final class NodeLoads {
  private final Supplier<List<NodePeer>> peers;
  private final NodeHints hints;
  private final double[] doneNs = new double[NodeTier.PEERS_MAX];
  private final double[] blockNs = new double[NodeTier.PEERS_MAX];

  /** The nodes that can be asked, a bit each. */
  private long connected;

  /** The nodes that blocks come from, a bit each. */
  private long used;

  NodeLoads(Supplier<List<NodePeer>> peers, NodeHints hints) {
    this.peers = peers;
    this.hints = hints;
  }

  /** Begins an estimate of blocks of one length. */
  public void begin(long blockBytes) {
    connected = 0;
    used = 0;
    for (NodePeer peer : peers.get()) {
      if (peer.state() == NodePeer.State.CONNECTED) {
        connected |= peer.bit();
        int number = Long.numberOfTrailingZeros(peer.bit());
        blockNs[number] = (double) blockBytes * peer.speed().nsPerByte();
        doneNs[number] = Math.max(peer.speed().latencyNs(), (double) peer.roundTripNs());
      }
    }
  }

  /** Adds a block. It takes no time if no node can be asked: its fetch is a miss at once. */
  public void add(ObjectKey key) {
    int best = -1;
    for (long bits = hints.holders(key) & connected; bits != 0; bits &= bits - 1) {
      int peer = Long.numberOfTrailingZeros(bits);
      if (best < 0 || doneNs[peer] + blockNs[peer] < doneNs[best] + blockNs[best]) {
        best = peer;
      }
    }
    if (best >= 0) {
      doneNs[best] += blockNs[best];
      used |= 1L << best;
    }
  }

  /** How long it would take to fetch the blocks, ns. */
  public long estimatedNs() {
    double longestNs = 0;
    for (long bits = used; bits != 0; bits &= bits - 1) {
      longestNs = Math.max(longestNs, doneNs[Long.numberOfTrailingZeros(bits)]);
    }
    return (long) longestNs;
  }
}

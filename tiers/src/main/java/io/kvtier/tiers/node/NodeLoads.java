package io.kvtier.tiers.node;

import io.kvtier.tiers.object.ObjectKey;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Estimates how long it would take to fetch some blocks: each comes from the node that would
 * deliver it first, and the nodes deliver at the same time. Reused for each estimate. Confined to
 * the index.
 */
public final class NodeLoads {
  private final IntFunction<@Nullable NodePeer> peers;
  private final NodeHints hints;

  /** The estimate in which the figures of a node were last set. */
  private final long[] setIn = new long[NodeTier.NUMBERS_MAX];

  /** The time until a node has delivered the blocks it was given, and its time for a block. */
  private final double[] doneNs = new double[NodeTier.NUMBERS_MAX];

  private final double[] blockNs = new double[NodeTier.NUMBERS_MAX];
  private long estimate;
  private long blockBytes;
  private double longestNs;

  NodeLoads(IntFunction<@Nullable NodePeer> peers, NodeHints hints) {
    this.peers = peers;
    this.hints = hints;
  }

  /** Begins an estimate of blocks of one length. */
  public void begin(long bytes) {
    estimate++;
    blockBytes = bytes;
    longestNs = 0;
  }

  private boolean knows(int number) {
    if (setIn[number] != estimate) {
      NodePeer peer = peers.apply(number);
      if (peer == null || peer.state() != NodePeer.State.CONNECTED) {
        return false;
      }
      setIn[number] = estimate;
      blockNs[number] = (double) blockBytes * peer.speed().nsPerByte();
      doneNs[number] = Math.max(peer.speed().latencyNs(), (double) peer.roundTripNs());
    }
    return true;
  }

  /** Adds a block. It takes no time if no node can be asked: its fetch is a miss at once. */
  public void add(ObjectKey key) {
    long holders = hints.holders(key);
    int best = -1;
    for (int place = 0; place < Holders.MAX; place++) {
      int number = Holders.at(holders, place);
      if (number >= 0
          && knows(number)
          && (best < 0 || doneNs[number] + blockNs[number] < doneNs[best] + blockNs[best])) {
        best = number;
      }
    }
    if (best >= 0) {
      doneNs[best] += blockNs[best];
      longestNs = Math.max(longestNs, doneNs[best]);
    }
  }

  /** How long it would take to fetch the blocks, ns. */
  public long estimatedNs() {
    return (long) longestNs;
  }
}

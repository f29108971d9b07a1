package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Blocks that wait to be pushed. All readers take from it, each as much as its connections can take
 * now. Safe for several threads.
 */
final class PushQueue {
  /** How long pushes wait while no node is connected: a broken connection is soon made again. */
  private static final long ALONE_NS = TimeUnit.SECONDS.toNanos(5);

  private final Supplier<List<NodePeer>> peers;
  private final Queue<Push> waiting = new ConcurrentLinkedQueue<>();
  private volatile boolean isCancelled;

  /** When any reader was last seen connected to a node, or began to serve this queue. */
  private volatile long connectedNs;

  private volatile boolean isTimed;

  /**
   * An empty queue.
   *
   * @param peers the nodes that there are now
   */
  PushQueue(Supplier<List<NodePeer>> peers) {
    this.peers = peers;
  }

  /** Has a block pushed to one of the nodes. */
  void add(Push push) {
    waiting.add(push);
  }

  /** All pushes end that no node has a slot for. */
  void cancel() {
    isCancelled = true;
  }

  /** Pushes are taken again after {@link #cancel}. */
  void open() {
    isCancelled = false;
    isTimed = false;
  }

  boolean isCancelled() {
    return isCancelled;
  }

  boolean isEmpty() {
    return waiting.isEmpty();
  }

  /** The nodes that any reader is connected to. */
  private List<NodePeer> connected() {
    return peers.get().stream().filter(peer -> peer.state() == NodePeer.State.CONNECTED).toList();
  }

  /** Gives a reader's connections what they can take; returns how many blocks have moved on. */
  int serve(List<PeerLink> links, long nowNs, int turn) {
    // Noted in each round: all pushes may be under way when a connection breaks.
    if (!isTimed || links.stream().anyMatch(PeerLink::isReady)) {
      connectedNs = nowNs;
      isTimed = true;
    }
    if (waiting.isEmpty()) {
      return 0;
    }
    List<NodePeer> connected = connected();
    boolean isAlone = connected.isEmpty() && nowNs - connectedNs >= ALONE_NS;
    List<Push> left = new ArrayList<>();
    int moved = 0;
    for (Push push = waiting.poll(); push != null; push = waiting.poll()) {
      if (isCancelled) {
        push.end(Status.CANCELLED);
        moved++;
      } else if (giveTo(links, push, nowNs, turn + moved)) {
        moved++;
      } else if (isAlone || (!connected.isEmpty() && connected.stream().allMatch(push::spares))) {
        push.end();
        moved++;
      } else {
        left.add(push);
      }
    }
    waiting.addAll(left);
    return moved;
  }

  /**
   * Gives a block to the node that would have it first. Nodes with unused memory come before those
   * that would have to evict a block for it.
   */
  private static boolean giveTo(List<PeerLink> links, Push push, long nowNs, int turn) {
    PushLine best = null;
    for (int i = 0; i < links.size(); i++) {
      PeerLink link = links.get(Math.floorMod(turn + i, links.size()));
      PushLine line = link.pushes();
      if (link.isReady()
          && line.takes(push, nowNs)
          && (best == null || line.isBetter(best, push.length))) {
        best = line;
      }
    }
    if (best == null) {
      return false;
    }
    best.begin(push, nowNs);
    return true;
  }
}

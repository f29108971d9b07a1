package io.kvtier.tiers.node;

import io.kvtier.tiers.object.KnownBlocks;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;

/**
 * The memory of other nodes as a source of blocks: their list, what is known of their blocks, and a
 * pipeline that fetches. Each reader has a thread, and a connection to each node.
 */
public final class NodeTier {
  /** The most nodes: each has a bit of a number. */
  public static final int PEERS_MAX = 32;

  /** The most fetches that are under way or wait. */
  public static final int DEPTH = 128;

  private final List<NodePeer> peers = new ArrayList<>();
  private final List<NodeReader> readers = new ArrayList<>();
  private final NodeHints hints;
  private final Fetches pipeline;

  /**
   * Makes a reader for each transport.
   *
   * @param firstIds where the numbers of a reader's requests begin, different in each start
   * @param bell wakes the index
   */
  public NodeTier(
      List<NodeAddress> addresses,
      List<? extends NodeTransport> transports,
      NodeReader.Options options,
      NodeHints hints,
      LongSupplier firstIds,
      Runnable bell,
      TroubleLog troubles) {
    this.hints = hints;
    if (addresses.size() > PEERS_MAX) {
      throw new IllegalArgumentException(
          addresses.size() + " nodes, expected at most " + PEERS_MAX);
    }
    for (NodeAddress address : addresses) {
      peers.add(new NodePeer(peers.size(), address, transports.size()));
    }
    pipeline = new Fetches(readers, bell);
    for (NodeTransport transport : transports) {
      readers.add(
          new NodeReader(
              readers.size(),
              transport,
              peers,
              options,
              firstIds.getAsLong(),
              hints,
              pipeline::finish,
              troubles));
    }
    hints.askWith(questions -> readers.getFirst().ask(questions));
  }

  /** The nodes, whether they can be reached or not. */
  public List<NodePeer> peers() {
    return List.copyOf(peers);
  }

  /** The readers, each to be run by the thread of its transport. */
  public List<NodeReader> readers() {
    return List.copyOf(readers);
  }

  /** The blocks that nodes are known to have, or not to have. */
  public KnownBlocks known() {
    return hints;
  }

  /** Fetches blocks. */
  public Pipeline pipeline() {
    return pipeline;
  }

  /** Whether any node can be asked; from any thread. */
  public boolean isOpen() {
    for (NodePeer peer : peers) {
      if (peer.state() == NodePeer.State.CONNECTED) {
        return true;
      }
    }
    return false;
  }

  /** Spreads fetches over the readers. The index offers and collects, the readers finish. */
  private static final class Fetches implements Pipeline {
    private final List<NodeReader> readers;
    private final Runnable bell;
    private final MpscAtomicArrayQueue<Transfer> finished = new MpscAtomicArrayQueue<>(DEPTH);
    private int inFlight;
    private int turn;

    Fetches(List<NodeReader> readers, Runnable bell) {
      this.readers = readers;
      this.bell = bell;
    }

    void finish(Transfer transfer) {
      finished.add(transfer);
      bell.run();
    }

    @Override
    public boolean offer(Transfer transfer) {
      if (inFlight == DEPTH) {
        return false;
      }
      inFlight++;
      turn = (turn + 1) % readers.size();
      readers.get(turn).fetch(transfer);
      return true;
    }

    @Override
    public int collect(Consumer<Transfer> sink) {
      int count = 0;
      for (Transfer one = finished.poll(); one != null; one = finished.poll()) {
        inFlight--;
        count++;
        sink.accept(one);
      }
      return count;
    }

    @Override
    public boolean hasFinished() {
      return !finished.isEmpty();
    }

    @Override
    public int inFlight() {
      return inFlight;
    }

    @Override
    public void close() {}
  }
}

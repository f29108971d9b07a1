package io.kvtier.tiers.node;

import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.object.KnownBlocks;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jctools.queues.atomic.MpscAtomicArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * The memory of other nodes as a source of blocks: the nodes, which come and go, what is known of
 * their blocks, and a pipeline that fetches. Each reader has a thread, and a connection to each
 * node that is asked. If there are more nodes than can be asked, those that came last wait until
 * others leave.
 */
public final class NodeTier {
  /** The most nodes that are asked where all are asked about all blocks. */
  public static final int PEERS_MAX = 32;

  /** The most nodes that are asked with a directory. */
  public static final int NUMBERS_MAX = 1024;

  /** The most calls of {@link #find} that are under way. */
  private static final int SURVEYS_MAX = 64;

  /** The most fetches that are under way or wait. */
  public static final int DEPTH = 128;

  /** The most blocks that are expected from other nodes. */
  public static final int EXPECTED_MAX = 4096;

  /** The nodes, in the order in which they came. Guarded by itself. */
  private final Map<NodeAddress, NodePeer> peers = new LinkedHashMap<>();

  private volatile List<NodePeer> listed = List.of();

  private final List<NodeReader> readers = new ArrayList<>();
  private final NodeHints hints;
  private final PushQueue pushes = new PushQueue(this::peers);
  private final Reads pipeline;
  private final Reads expected;
  private final AtomicInteger surveys = new AtomicInteger();

  /** The nodes that are asked, by their numbers. */
  private final AtomicReferenceArray<@Nullable NodePeer> byNumber =
      new AtomicReferenceArray<>(NUMBERS_MAX);

  /** The numbers of the nodes that are asked, and of those that some reader still knows. */
  private final BitSet usedNumbers = new BitSet();

  /** Null if all nodes are asked about all blocks, however many there are. */
  private @Nullable NodeDirectory directory;

  /**
   * Makes a reader for each transport. There are no nodes yet.
   *
   * @param firstIds where the numbers of a reader's requests begin, different in each start
   * @param bell wakes the index
   */
  public NodeTier(
      List<? extends NodeTransport> transports,
      NodeReader.Options options,
      NodeHints hints,
      LongSupplier firstIds,
      Runnable bell,
      TroubleLog troubles) {
    this.hints = hints;
    pipeline = new Reads(readers, bell, DEPTH, NodeReader::fetch);
    expected = new Reads(readers, bell, EXPECTED_MAX, NodeReader::follow);
    for (NodeTransport transport : transports) {
      readers.add(
          new NodeReader(
              readers.size(),
              transport,
              options,
              firstIds.getAsLong(),
              hints,
              pushes,
              pipeline::finish,
              expected::finish,
              troubles));
    }
    hints.askWith(questions -> readers.getFirst().ask(questions));
  }

  /**
   * Finds blocks with a directory as soon as there are more than {@link #PEERS_MAX} nodes; called
   * once, before there are nodes.
   *
   * @param owned is opened then
   * @param feed tells which blocks this node has
   * @param always whether the directory is used with fewer nodes, too
   */
  public void use(NodeDirectory owned, ChangeFeed feed, boolean always) {
    directory = owned;
    if (always) {
      owned.open();
    }
    readers.getFirst().use(owned, feed, always);
  }

  /** A node has come: it is connected in the background. From any thread. */
  public void join(NodeAddress address) {
    synchronized (peers) {
      if (!peers.containsKey(address)) {
        admit(address);
      }
    }
  }

  private void admit(NodeAddress address) {
    int number = usedNumbers.nextClearBit(0);
    NodeDirectory owned = directory;
    boolean isSpare = number >= (owned == null ? PEERS_MAX : NUMBERS_MAX);
    if (owned != null && number >= PEERS_MAX) {
      owned.open();
    }
    NodePeer peer = new NodePeer(isSpare ? NodePeer.SPARE : number, address, readers.size());
    peers.put(address, peer);
    listed = List.copyOf(peers.values());
    if (!isSpare) {
      usedNumbers.set(number);
      byNumber.set(number, peer);
      readers.forEach(reader -> reader.join(peer));
    }
  }

  /**
   * A node has left: its connections are closed, what waits for it goes on without it, and what is
   * known of its blocks is forgotten. From any thread.
   */
  public void leave(NodeAddress address) {
    NodePeer gone;
    synchronized (peers) {
      gone = peers.remove(address);
      listed = List.copyOf(peers.values());
    }
    if (gone != null && gone.number() != NodePeer.SPARE) {
      AtomicInteger open = new AtomicInteger(readers.size());
      for (NodeReader reader : readers) {
        reader.leave(
            gone,
            () -> {
              if (open.decrementAndGet() == 0) {
                left(gone);
              }
            });
      }
    }
  }

  /** Gives the number of a node free, which no reader knows any more. */
  private void left(NodePeer gone) {
    hints.forgetHolder(gone.number());
    synchronized (peers) {
      usedNumbers.clear(gone.number());
      byNumber.set(gone.number(), null);
      for (NodePeer each : listed) {
        if (each.state() == NodePeer.State.SPARE) {
          admit(each.address());
          return;
        }
      }
    }
  }

  /**
   * Asks all nodes that can be asked which blocks they have.
   *
   * @param keys of an ASK
   * @param finished takes what the nodes answer, the best first, on the thread of a reader
   * @return false if too many such questions are under way
   */
  public boolean find(Messages.Keys keys, Consumer<List<NodeRun>> finished) {
    if (surveys.incrementAndGet() > SURVEYS_MAX) {
      surveys.decrementAndGet();
      return false;
    }
    Survey survey =
        new Survey(
            keys,
            runs -> {
              surveys.decrementAndGet();
              finished.accept(runs);
            });
    readers.getFirst().survey(survey);
    return true;
  }

  /** The nodes, whether they can be reached or not. */
  public List<NodePeer> peers() {
    return listed;
  }

  /** The readers, each to be run by the thread of its transport. */
  public List<NodeReader> readers() {
    return List.copyOf(readers);
  }

  /** The blocks that nodes are known to have, or not to have. */
  public KnownBlocks known() {
    return hints;
  }

  /** Estimates how long fetches take; for the index. */
  public NodeLoads loads() {
    return new NodeLoads(byNumber::get, hints);
  }

  /** Fetches blocks. */
  public Pipeline pipeline() {
    return pipeline;
  }

  /**
   * Waits for blocks that a node is going to have, and takes their pieces. The transfers name the
   * node. A transfer that is given up ends soon after {@link #endGivenUp}.
   */
  public Pipeline expected() {
    return expected;
  }

  /** Has the readers end the expected blocks that are given up; from any thread. */
  public void endGivenUp() {
    readers.forEach(NodeReader::endGivenUp);
  }

  private void wakeReaders() {
    readers.forEach(NodeReader::wake);
  }

  /** Has a block pushed to one of the nodes; from any thread. The caller bounds their number. */
  public void push(Push push) {
    pushes.add(push);
    wakeReaders();
  }

  /** Ends all pushes that no node has a slot for; from any thread. */
  public void cancelPushes() {
    pushes.cancel();
    wakeReaders();
  }

  /** Takes pushes again after {@link #cancelPushes}, when all earlier ones are over. */
  public void openPushes() {
    pushes.open();
  }

  /** Whether any node can be asked; from any thread. */
  public boolean isOpen() {
    for (NodePeer peer : listed) {
      if (peer.state() == NodePeer.State.CONNECTED) {
        return true;
      }
    }
    return false;
  }

  /** Spreads reads over the readers. The index offers and collects, the readers finish. */
  private static final class Reads implements Pipeline {
    private final List<NodeReader> readers;
    private final Runnable bell;
    private final int depth;
    private final BiConsumer<NodeReader, Transfer> begin;
    private final MpscAtomicArrayQueue<Transfer> finished;
    private int inFlight;
    private int turn;

    Reads(
        List<NodeReader> readers,
        Runnable bell,
        int depth,
        BiConsumer<NodeReader, Transfer> begin) {
      this.readers = readers;
      this.bell = bell;
      this.depth = depth;
      this.begin = begin;
      finished = new MpscAtomicArrayQueue<>(depth);
    }

    void finish(Transfer transfer) {
      finished.add(transfer);
      bell.run();
    }

    @Override
    public boolean offer(Transfer transfer) {
      if (inFlight == depth) {
        return false;
      }
      inFlight++;
      turn = (turn + 1) % readers.size();
      begin.accept(readers.get(turn), transfer);
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

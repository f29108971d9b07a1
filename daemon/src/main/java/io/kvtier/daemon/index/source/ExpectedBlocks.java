package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.IntPredicate;
import java.util.function.LongSupplier;

/**
 * Blocks that other nodes are going to have, as a source. A get names the node, and the pieces of
 * its blocks come from there as they are written. No lookup finds a block here. A block that no
 * request waits for any more is given up. Confined to the index.
 */
public final class ExpectedBlocks implements BlockSource {
  private static final long LOOK_EVERY_NS = 5_000_000;

  /** Expectations that were left behind do no harm, and there may be many. */
  private static final long CLEAN_EVERY_NS = 1_000_000_000;

  private static final Traits TRAITS =
      new Traits(
          TierId.NODE,
          null,
          Counter.HITS_NODE,
          Counter.NODE_FETCHED,
          Counter.NODE_READ_BYTES,
          Counter.NODE_ERRORS);

  /** The node that is going to have a block, and when the block is given up. */
  private record Expectation(int node, long deadlineNs) {}

  private final NodeTier nodes;
  private final Counters counters;
  private final LongSupplier clock;
  private final IntPredicate isAwaited;
  private final Waiting pipeline;

  /** The blocks that have no slot yet. */
  private final Map<Integer, Expectation> expectations = new HashMap<>();

  private long nextLookNs;
  private long nextCleanNs;

  private ExpectedBlocks(NodeTier nodes, IndexCore core, IntPredicate isAwaited) {
    this.nodes = nodes;
    this.isAwaited = isAwaited;
    counters = core.counters();
    clock = core.clock();
    pipeline = new Waiting(nodes.expected());
  }

  /** Makes the source for an index. */
  public static Opener opener(NodeTier nodes) {
    return (core, isAwaited, _) -> new ExpectedBlocks(nodes, core, isAwaited);
  }

  @Override
  public Traits traits() {
    return TRAITS;
  }

  @Override
  public Pipeline pipeline() {
    return pipeline;
  }

  @Override
  public int depth() {
    return NodeTier.EXPECTED_MAX;
  }

  /** A node that writes a block piece by piece has it raw. */
  @Override
  public boolean keepsForms() {
    return false;
  }

  @Override
  public boolean isOpen() {
    return nodes.isOpen();
  }

  @Override
  public boolean isExpecting() {
    return true;
  }

  @Override
  public void expect(int block, int node, long deadlineNs) {
    expectations.put(block, new Expectation(node, deadlineNs));
  }

  @Override
  public void advance() {
    if (expectations.isEmpty() && pipeline.underway.isEmpty()) {
      return;
    }
    long nowNs = clock.getAsLong();
    if (nowNs - nextLookNs < 0) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    if (nowNs - nextCleanNs >= 0) {
      nextCleanNs = nowNs + CLEAN_EVERY_NS;
      // A block that was given up before it got a slot leaves its expectation behind.
      expectations.values().removeIf(one -> nowNs - one.deadlineNs >= 0);
    }
    if (pipeline.giveUpUnawaited()) {
      nodes.endGivenUp();
    }
  }

  /** The transfers that wait for their blocks. */
  private final class Waiting implements Pipeline {
    private final Pipeline readers;
    private final Set<Transfer> underway = new HashSet<>();

    Waiting(Pipeline readers) {
      this.readers = readers;
    }

    /** Whether any transfer is given up now. */
    private boolean giveUpUnawaited() {
      boolean any = false;
      for (Transfer transfer : underway) {
        if (!transfer.givenUp && !isAwaited.test(transfer.block)) {
          transfer.givenUp = true;
          any = true;
        }
      }
      return any;
    }

    @Override
    public boolean offer(Transfer transfer) {
      Expectation expected = expectations.get(transfer.block);
      // A block without an expectation is late: the reader gives it up.
      transfer.node = expected == null ? 0 : expected.node;
      transfer.deadlineNs = expected == null ? clock.getAsLong() : expected.deadlineNs;
      if (!readers.offer(transfer)) {
        return false;
      }
      expectations.remove(transfer.block);
      underway.add(transfer);
      counters.set(Counter.GAUGE_EXPECTED, underway.size());
      return true;
    }

    @Override
    public int collect(Consumer<Transfer> sink) {
      return readers.collect(transfer -> {
        underway.remove(transfer);
        count(transfer);
        transfer.status = settled(transfer.status);
        sink.accept(transfer);
      });
    }

    private static Counter counterOf(Status outcome) {
      return switch (outcome) {
        case OK -> Counter.NODE_EXPECTED;
        case MISS -> Counter.NODE_EXPECTED_REFUSED;
        case DEADLINE -> Counter.NODE_EXPECTED_LATE;
        case CANCELLED -> Counter.NODE_EXPECTED_UNWANTED;
        case UNAVAILABLE -> Counter.NODE_EXPECTED_UNREACHABLE;
        case CORRUPT -> Counter.NODE_EXPECTED_CORRUPT;
        default -> Counter.NODE_EXPECTED_BROKEN;
      };
    }

    /** The outcome for the index: that a block does not come is no error. */
    private static Status settled(Status outcome) {
      return switch (outcome) {
        case DEADLINE, CANCELLED, UNAVAILABLE -> Status.MISS;
        default -> outcome;
      };
    }

    private void count(Transfer transfer) {
      boolean isWhole = transfer.status == Status.OK;
      counters.add(counterOf(transfer.status), 1);
      counters.add(Counter.NODE_EXPECTED_BYTES, isWhole ? transfer.length : 0);
      counters.add(Counter.NODE_PIECES, transfer.pieces);
      counters.set(Counter.GAUGE_EXPECTED, underway.size());
    }

    @Override
    public boolean hasFinished() {
      return readers.hasFinished();
    }

    @Override
    public int inFlight() {
      return readers.inFlight();
    }

    @Override
    public void close() {}
  }

  // ---- what lookups ask: nothing is known here

  @Override
  public Presence presenceOfSought(Namespaces.Namespace namespace, int keyBytes, int group) {
    return Presence.ABSENT;
  }

  @Override
  public Presence presenceOf(int block) {
    return Presence.ABSENT;
  }

  @Override
  public boolean has(int block) {
    return false;
  }

  @Override
  public boolean seek(Namespaces.Namespace namespace, int group, int keyBytes) {
    return false;
  }

  @Override
  public void endLookup() {}

  @Override
  public boolean ask(int block, int priority, boolean prefetch) {
    return false;
  }

  @Override
  public int collect(Finder finder) {
    return 0;
  }

  @Override
  public boolean hasFound() {
    return false;
  }

  @Override
  public int waiting() {
    return 0;
  }

  @Override
  public void fetched(int block, Status status) {}

  @Override
  public void checkInvariants() {
    if (pipeline.underway.size() != pipeline.inFlight()) {
      throw new IllegalStateException(
          pipeline.underway.size() + " blocks are expected, and " + pipeline.inFlight() + " read");
    }
  }
}

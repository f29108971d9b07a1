package io.kvtier.daemon.simulation;

import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.PriorityQueue;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** A pipeline whose transfers take simulated time and finish in any order. */
final class SimulatedPipeline implements Pipeline {
  private record InFlight(long finishNs, long order, Transfer transfer) {}

  private final Leg leg;
  private final int depth;
  private final LongSupplier clock;
  private final SplittableRandom random;
  private final PriorityQueue<InFlight> inFlight =
      new PriorityQueue<>((a, b) ->
          a.finishNs != b.finishNs
              ? Long.compare(a.finishNs, b.finishNs)
              : Long.compare(a.order, b.order));
  private long order;

  SimulatedPipeline(int depth, Leg leg, LongSupplier clock, SplittableRandom random) {
    this.leg = leg;
    this.depth = depth;
    this.clock = clock;
    this.random = random;
  }

  @Override
  public boolean offer(Transfer transfer) {
    if (inFlight.size() == depth) {
      return false;
    }
    // Mostly tens of microseconds, now and then a spike of many milliseconds.
    long latencyNs =
        random.nextInt(50) == 0 ? random.nextInt(80_000_000) : 10_000 + random.nextInt(400_000);
    inFlight.add(new InFlight(clock.getAsLong() + latencyNs, order++, transfer));
    return true;
  }

  @Override
  public int collect(Consumer<Transfer> finished) {
    int count = 0;
    while (hasFinished()) {
      Transfer transfer = inFlight.remove().transfer;
      transfer.elapsedNs = 100_000;
      leg.run(transfer);
      finished.accept(transfer);
      count++;
    }
    return count;
  }

  /** The process is killed: of the stores on their way, some are carried out. */
  void kill() {
    for (InFlight one : inFlight) {
      if (one.transfer.kind == Transfer.Kind.STORE && random.nextBoolean()) {
        leg.run(one.transfer);
      }
    }
  }

  @Override
  public boolean hasFinished() {
    return !inFlight.isEmpty() && inFlight.element().finishNs <= clock.getAsLong();
  }

  @Override
  public int inFlight() {
    return inFlight.size();
  }

  @Override
  public void close() {}
}

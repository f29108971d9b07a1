package io.kvtier.daemon.simulation;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * The pipeline of one SSD in simulated time: the device's transfers finish in any order; stores and
 * what is to be forgotten go through the ledger in the order in which they get there, in groups.
 */
final class SimulatedSsd implements Pipeline {
  private record InFlight(long dueNs, long order, Transfer transfer) {}

  private final int depth;
  private final Leg device;
  private final LedgerLeg ledger;
  private final Simulation.Planted planted;
  private final LongSupplier clock;
  private final SplittableRandom random;
  private final PriorityQueue<InFlight> onDevice =
      new PriorityQueue<>((a, b) ->
          a.dueNs != b.dueNs ? Long.compare(a.dueNs, b.dueNs) : Long.compare(a.order, b.order));
  private final ArrayDeque<InFlight> onLedger = new ArrayDeque<>();
  private final ArrayDeque<Transfer> finished = new ArrayDeque<>();
  private final Set<Transfer> unasked = new HashSet<>();
  private long order;
  private int inFlight;

  SimulatedSsd(
      int depth,
      Leg device,
      LedgerLeg ledger,
      Simulation.Planted planted,
      LongSupplier clock,
      SplittableRandom random) {
    this.planted = planted;
    this.depth = depth;
    this.device = device;
    this.ledger = ledger;
    this.clock = clock;
    this.random = random;
  }

  private long due() {
    // Mostly tens of microseconds, now and then a spike of many milliseconds.
    long latencyNs =
        random.nextInt(50) == 0 ? random.nextInt(80_000_000) : 10_000 + random.nextInt(400_000);
    return clock.getAsLong() + latencyNs;
  }

  @Override
  public boolean offer(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.FORGET) {
      switch (planted) {
        case DELETE_WITHOUT_FORGETTING -> finished.add(transfer);
        case FORGOTTEN_TOO_EARLY -> {
          finished.add(transfer);
          Transfer later = Transfer.forget(transfer.placeCount);
          System.arraycopy(transfer.places, 0, later.places, 0, transfer.placeCount);
          later.placeCount = transfer.placeCount;
          unasked.add(later);
          onDevice.add(new InFlight(due(), order++, later));
        }
        default -> toLedger(transfer);
      }
      return true;
    }
    if (inFlight == depth) {
      return false;
    }
    inFlight++;
    onDevice.add(new InFlight(due(), order++, transfer));
    return true;
  }

  private void toLedger(Transfer transfer) {
    long after = onLedger.isEmpty() ? 0 : onLedger.getLast().dueNs;
    onLedger.add(new InFlight(Math.max(after, due()), order++, transfer));
  }

  @Override
  public int collect(Consumer<Transfer> sink) {
    long now = clock.getAsLong();
    while (!onDevice.isEmpty() && onDevice.element().dueNs <= now) {
      Transfer transfer = onDevice.remove().transfer;
      if (transfer.kind == Transfer.Kind.FORGET) {
        toLedger(transfer);
        continue;
      }
      transfer.elapsedNs = 100_000;
      device.run(transfer);
      if (transfer.kind == Transfer.Kind.STORE
          && transfer.status == Status.OK
          && planted != Simulation.Planted.ACKNOWLEDGE_BEFORE_LEDGER) {
        toLedger(transfer);
      } else {
        finished.add(transfer);
      }
    }
    List<Transfer> group = new ArrayList<>();
    while (!onLedger.isEmpty() && onLedger.element().dueNs <= now) {
      group.add(onLedger.remove().transfer);
    }
    if (!group.isEmpty()) {
      ledger.run(
          group,
          transfer -> {
            if (!unasked.remove(transfer)) {
              finished.add(transfer);
            }
          });
    }
    int count = finished.size();
    for (int i = 0; i < count; i++) {
      Transfer transfer = finished.remove();
      inFlight -= transfer.kind == Transfer.Kind.FORGET ? 0 : 1;
      sink.accept(transfer);
    }
    return count;
  }

  /** The process is killed: of the stores on their way, some reached the device. */
  void kill() {
    for (InFlight one : onDevice) {
      if (one.transfer.kind == Transfer.Kind.STORE && random.nextBoolean()) {
        device.run(one.transfer);
      }
    }
  }

  @Override
  public boolean hasFinished() {
    long now = clock.getAsLong();
    return !finished.isEmpty()
        || (!onDevice.isEmpty() && onDevice.element().dueNs <= now)
        || (!onLedger.isEmpty() && onLedger.element().dueNs <= now);
  }

  @Override
  public int inFlight() {
    return inFlight;
  }

  @Override
  public void close() {}
}

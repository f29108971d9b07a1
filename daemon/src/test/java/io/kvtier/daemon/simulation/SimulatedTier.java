package io.kvtier.daemon.simulation;

import io.kvtier.daemon.index.MemoryLedger;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.ssd.SsdLeg;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.ToLongFunction;

/** A lower tier of a simulated daemon: its devices and ledgers, which outlive each start. */
final class SimulatedTier {
  private static final int FILE_BYTES = 128 * 1024;
  private static final int PAGE = 4096;

  private final TierTraits traits;
  private final int files;
  private final Tenants tenants;
  private final List<SimulatedDevice> devices = new ArrayList<>();
  private final List<MemoryLedger.Medium> media = new ArrayList<>();
  private List<SimulatedSsd> pipelines = List.of();

  /** An empty tier of a number of files, on one to three devices. */
  SimulatedTier(
      TierTraits traits,
      int files,
      Tenants tenants,
      SimulatedDevice.Faults faults,
      SplittableRandom random) {
    this.traits = traits;
    this.files = files;
    this.tenants = tenants;
    int count = files == 0 ? 1 : 1 + random.nextInt(Math.min(3, files));
    for (int i = 0; i < count; i++) {
      int ofDevice = (files + count - 1 - i) / count;
      devices.add(new SimulatedDevice(ofDevice, FILE_BYTES, faults, random.split()));
      media.add(new MemoryLedger.Medium());
    }
  }

  int files() {
    return files;
  }

  /** The tier as a start of the daemon finds it. */
  TierParts.Lower start(Simulation simulation, SplittableRandom random) {
    int depth = 1 + random.nextInt(8);
    List<SimulatedSsd> made = new ArrayList<>();
    for (int i = 0; i < devices.size(); i++) {
      made.add(
          new SimulatedSsd(
              depth,
              simulation.deviceLeg(
                  new SsdLeg(simulation.device(devices.get(i)), simulation.anyCodec())),
              new LedgerLeg(
                  simulation.failing(new MemoryLedger(media.get(i))),
                  random.nextBoolean(),
                  () -> {}),
              simulation.planted(),
              simulation::nowNs,
              random.split()));
    }
    pipelines = made;
    // Half of the files are the tenant's, if there is a tenant.
    int[] regions = tenants.regions(List.of((long) files / 2), files, 1).toArray();
    return new TierParts.Lower(
        traits,
        new TierParts.Space(
            new SlotAllocator(
                tenants.count() > 1 ? regions : new int[files],
                tenants.count(),
                FILE_BYTES,
                PAGE,
                devices.size()),
            SlotHeaderDescriptor.HEADER_BYTES,
            simulation.anyPolicy()),
        List.of("all", "hot", "evicted", "frequency").get(random.nextInt(4)),
        new TierParts.Devices(List.copyOf(made), depth),
        new TierParts.Pace(
            random.nextBoolean() ? 0 : 1 << random.nextInt(28),
            random.nextInt(4) == 0 ? 1L << (30 + random.nextInt(12)) : 0),
        new TierParts.Place("", "", false));
  }

  /** The ledgers that the daemon reads when it starts. */
  List<Ledger> ledgers() {
    List<Ledger> ledgers = new ArrayList<>();
    media.forEach(medium -> ledgers.add(new MemoryLedger(medium)));
    return ledgers;
  }

  /** The daemon is killed. */
  void kill() {
    pipelines.forEach(SimulatedSsd::kill);
  }

  /** Transfers under way. */
  int inFlight() {
    return pipelines.stream().mapToInt(SimulatedSsd::inFlight).sum();
  }

  /** The sum of a count over all devices. */
  long sum(ToLongFunction<SimulatedDevice> kind) {
    return devices.stream().mapToLong(kind).sum();
  }
}

package io.kvtier.daemon.simulation;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.ThirdTierTest;
import io.kvtier.daemon.index.core.TierTraits;
import java.util.List;

/** Runs simulations from the command line: as {@link SeedRuns}, with {@code [--tiers 2|3]}. */
final class Simulate {
  private long hits;
  private long faults;
  private long demotions;
  private long promotions;
  private long corrupt;
  private long crashes;

  private Simulate() {}

  public static void main(String[] arguments) {
    SeedRuns runs = new SeedRuns("scripts/simulate", 1, List.of("--tiers"), arguments);
    Simulation.Planted planted = runs.planted(Simulation.Planted.class);
    List<TierTraits> lower =
        runs.option("--tiers", "2").equals("3") ? ThirdTierTest.LOWER : List.of(KnownTiers.SSD);
    Simulate all = new Simulate();
    runs.run(
        seed -> {
          try (Simulation simulation = new Simulation(seed, planted, lower)) {
            all.add(simulation.run());
          }
        },
        all::figures);
  }

  private void add(Simulation.Outcome outcome) {
    hits += outcome.hits();
    faults += outcome.faults();
    demotions += outcome.demotions();
    promotions += outcome.promotions();
    corrupt += outcome.corrupt();
    crashes += outcome.crashes();
  }

  private String figures() {
    return "%d hits verified, %d device faults, %d corrupt reads caught, %d demotions, %d promotions, %d crashes"
        .formatted(hits, faults, corrupt, demotions, promotions, crashes);
  }
}

package io.kvtier.daemon.index;

import io.kvtier.daemon.simulation.SeedRuns;
import java.util.List;

/** Runs simulations of clusters from the command line, as {@link SeedRuns}. */
final class SimulateCluster {
  private long gets;
  private long fetched;
  private long pushed;
  private long expected;
  private long pieces;
  private long restarts;
  private long changes;

  private SimulateCluster() {}

  public static void main(String[] arguments) {
    SeedRuns runs = new SeedRuns("scripts/simulate --cluster", 0, List.of(), arguments);
    ClusterSimulation.Planted planted = runs.planted(ClusterSimulation.Planted.class);
    SimulateCluster all = new SimulateCluster();
    runs.run(
        seed -> {
          try (ClusterSimulation simulation = new ClusterSimulation(seed, planted)) {
            all.add(simulation.run());
          }
        },
        all::figures);
  }

  private void add(ClusterSimulation.Outcome outcome) {
    gets += outcome.gets();
    fetched += outcome.fetched();
    pushed += outcome.pushed();
    expected += outcome.expected();
    pieces += outcome.pieces();
    restarts += outcome.restarts();
    changes += outcome.changes();
  }

  private String figures() {
    return "%d gets answered, %d blocks fetched, %d pushed, %d expected blocks came in %d pieces, %d restarts, %d nodes left"
        .formatted(gets, fetched, pushed, expected, pieces, restarts, changes);
  }
}

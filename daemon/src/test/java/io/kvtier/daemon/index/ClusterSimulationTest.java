package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.kvtier.daemon.index.ClusterSimulation.Planted;
import io.kvtier.protocol.ProtocolViolation;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Simulated clusters: -Dkvtier.simulation.seeds has so many of them run, one after the other, from
 * the seed -Dkvtier.simulation.from on.
 */
class ClusterSimulationTest {
  private static final int SEEDS = Integer.getInteger("kvtier.simulation.seeds", 60);
  private static final long FROM = Long.getLong("kvtier.simulation.from", 0);
  private static final int SEEDS_PLANTED = 60;

  private static ClusterSimulation.Outcome run(long seed, Planted planted)
      throws IOException, ProtocolViolation {
    try (ClusterSimulation simulation = new ClusterSimulation(seed, planted)) {
      return simulation.run();
    }
  }

  @Test
  void anySeed_breaksNoPromise() throws IOException, ProtocolViolation {
    long fetched = 0;
    long pushed = 0;
    long expected = 0;
    long pieces = 0;
    int restarts = 0;
    int changes = 0;
    for (long seed = FROM; seed < FROM + SEEDS; seed++) {
      try {
        ClusterSimulation.Outcome outcome = run(seed, Planted.NONE);
        fetched += outcome.fetched();
        pushed += outcome.pushed();
        expected += outcome.expected();
        pieces += outcome.pieces();
        restarts += outcome.restarts();
        changes += outcome.changes();
      } catch (RuntimeException e) {
        throw new AssertionError("seed " + seed + ": " + e, e);
      }
    }
    // Otherwise the simulation would show nothing.
    assertTrue(fetched > 10L * SEEDS, fetched + " blocks fetched");
    assertTrue(pushed > 2L * SEEDS, pushed + " blocks pushed");
    assertTrue(expected > 2L * SEEDS, expected + " expected blocks came");
    assertTrue(pieces > 2 * expected, pieces + " pieces of " + expected + " blocks came");
    assertTrue(restarts > 0);
    assertTrue(changes > SEEDS, changes + " nodes left");
  }

  @ParameterizedTest
  @EnumSource(value = Planted.class, mode = EnumSource.Mode.EXCLUDE, names = "NONE")
  void plantedBug_isFound(Planted planted) throws IOException, ProtocolViolation {
    for (long seed = 0; seed < SEEDS_PLANTED; seed++) {
      try {
        var _ = run(seed, planted);
      } catch (ClusterSimulation.Violation found) {
        return;
      }
    }
    fail(planted + " was not found in " + SEEDS_PLANTED + " seeds");
  }
}

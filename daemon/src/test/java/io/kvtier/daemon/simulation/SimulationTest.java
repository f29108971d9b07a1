package io.kvtier.daemon.simulation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.ThirdTierTest;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.ProtocolViolation;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class SimulationTest {
  private static final long SEEDS = 1000;

  @Test
  void thousandSeeds_breakNoPromise() throws IOException, ProtocolViolation {
    run(List.of(KnownTiers.SSD), "");
  }

  @Test
  void thousandSeedsOfThreeTiers_breakNoPromise() throws IOException, ProtocolViolation {
    run(ThirdTierTest.LOWER, " --tiers 3");
  }

  private static void run(List<TierTraits> lower, String option)
      throws IOException, ProtocolViolation {
    long hits = 0;
    long caught = 0;
    for (long seed = 1; seed <= SEEDS; seed++) {
      try (Simulation simulation = new Simulation(seed, Simulation.Planted.NONE, lower)) {
        Simulation.Outcome outcome = simulation.run();
        hits += outcome.hits();
        caught += outcome.corrupt();
      } catch (RuntimeException e) {
        fail("seed " + seed + " failed; again by: scripts/simulate --seed " + seed + option, e);
      }
    }
    // A simulation in which nothing happens proves nothing.
    assertTrue(hits > 50 * SEEDS, "only " + hits + " hits in " + SEEDS + " seeds");
    assertTrue(caught > SEEDS, "only " + caught + " damaged blocks in " + SEEDS + " seeds");
  }

  @ParameterizedTest
  @EnumSource(value = Simulation.Planted.class, mode = EnumSource.Mode.EXCLUDE, names = "NONE")
  void plantedBug_isFoundWithinTwoHundredSeeds(Simulation.Planted planted)
      throws IOException, ProtocolViolation {
    for (long seed = 1; seed <= 200; seed++) {
      try (Simulation simulation = new Simulation(seed, planted)) {
        simulation.run();
      } catch (Simulation.Violation found) {
        return;
      }
    }
    fail(planted + " was not found");
  }

  @Test
  void sameSeed_sameOutcome() throws IOException, ProtocolViolation {
    Simulation.Outcome first;
    Simulation.Outcome second;
    try (Simulation simulation = new Simulation(7, Simulation.Planted.NONE)) {
      first = simulation.run();
    }
    try (Simulation simulation = new Simulation(7, Simulation.Planted.NONE)) {
      second = simulation.run();
    }
    assertEquals(first, second);
  }
}

package io.kvtier.daemon.simulation;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.ThirdTierTest;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.ProtocolViolation;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Runs simulations from the command line: {@code [--seed N] [--seeds COUNT] [--from N] [--plant
 * BUG] [--tiers 2|3]}.
 */
final class Simulate {
  private Simulate() {}

  public static void main(String[] arguments) {
    long from = 1;
    long count = 1000;
    Simulation.Planted planted = Simulation.Planted.NONE;
    List<TierTraits> lower = List.of(KnownTiers.SSD);
    if (arguments.length % 2 != 0) {
      System.err.println("simulate: '" + arguments[arguments.length - 1] + "' has no value");
      System.exit(2);
    }
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      switch (arguments[i]) {
        case "--seed" -> {
          from = Long.parseLong(arguments[i + 1]);
          count = 1;
        }
        case "--seeds" -> count = Long.parseLong(arguments[i + 1]);
        case "--from" -> from = Long.parseLong(arguments[i + 1]);
        case "--plant" ->
            planted =
                Simulation.Planted.valueOf(
                    arguments[i + 1].toUpperCase(Locale.ROOT).replace('-', '_'));
        case "--tiers" ->
            lower = arguments[i + 1].equals("3") ? ThirdTierTest.LOWER : List.of(KnownTiers.SSD);
        default -> {
          System.err.println(
              "simulate: unknown option '"
                  + arguments[i]
                  + "'; there are --seed --seeds --from --plant --tiers");
          System.exit(2);
        }
      }
    }
    long start = System.nanoTime();
    long hits = 0;
    long faults = 0;
    long demotions = 0;
    long promotions = 0;
    long corrupt = 0;
    long crashes = 0;
    List<String> failures = new ArrayList<>();
    for (long seed = from; seed < from + count; seed++) {
      try (Simulation simulation = new Simulation(seed, planted, lower)) {
        Simulation.Outcome outcome = simulation.run();
        hits += outcome.hits();
        faults += outcome.faults();
        demotions += outcome.demotions();
        promotions += outcome.promotions();
        corrupt += outcome.corrupt();
        crashes += outcome.crashes();
      } catch (RuntimeException | IOException | ProtocolViolation | AssertionError e) {
        failures.add(seed + ": " + e.getMessage());
        if (failures.size() <= 3) {
          System.out.println("FAILED seed " + seed + ": " + e);
          if (count == 1) {
            e.printStackTrace(System.out);
          } else {
            System.out.println(
                "  at " + (e.getStackTrace().length > 0 ? e.getStackTrace()[0] : "?"));
          }
          System.out.println(
              "  again: scripts/simulate --seed "
                  + seed
                  + (lower.size() == 1 ? "" : " --tiers 3")
                  + (planted == Simulation.Planted.NONE
                      ? ""
                      : " --plant " + planted.name().toLowerCase(Locale.ROOT)));
        }
      }
    }
    System.out.printf(
        Locale.ROOT,
        "%d seeds, %d failed, %.1f s; %d hits verified, %d device faults, %d corrupt reads caught, %d demotions, %d promotions, %d crashes%n",
        count,
        failures.size(),
        (System.nanoTime() - start) / 1e9,
        hits,
        faults,
        corrupt,
        demotions,
        promotions,
        crashes);
    System.exit(failures.isEmpty() ? 0 : 1);
  }
}

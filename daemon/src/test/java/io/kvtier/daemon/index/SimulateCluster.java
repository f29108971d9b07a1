package io.kvtier.daemon.index;

import io.kvtier.protocol.ProtocolViolation;
import java.io.IOException;
import java.util.Locale;

/**
 * Runs simulations of clusters from the command line: {@code [--seed N] [--seeds COUNT] [--from N]
 * [--plant BUG]}.
 */
final class SimulateCluster {
  /** Failures that are printed in full. */
  private static final int SHOWN = 3;

  private SimulateCluster() {}

  public static void main(String[] arguments) {
    long from = 0;
    long count = 1000;
    ClusterSimulation.Planted planted = ClusterSimulation.Planted.NONE;
    if (arguments.length % 2 != 0) {
      System.err.println(
          "simulate --cluster: '" + arguments[arguments.length - 1] + "' has no value");
      System.exit(2);
    }
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      String value = arguments[i + 1];
      switch (arguments[i]) {
        case "--seed" -> {
          from = Long.parseLong(value);
          count = 1;
        }
        case "--seeds" -> count = Long.parseLong(value);
        case "--from" -> from = Long.parseLong(value);
        case "--plant" ->
            planted =
                ClusterSimulation.Planted.valueOf(value.toUpperCase(Locale.ROOT).replace('-', '_'));
        default -> {
          System.err.println(
              "simulate --cluster: unknown option '"
                  + arguments[i]
                  + "'; there are --seed --seeds --from --plant");
          System.exit(2);
        }
      }
    }
    long start = System.nanoTime();
    long gets = 0;
    long fetched = 0;
    long pushed = 0;
    long expected = 0;
    long pieces = 0;
    long restarts = 0;
    long changes = 0;
    long failed = 0;
    for (long seed = from; seed < from + count; seed++) {
      try (ClusterSimulation simulation = new ClusterSimulation(seed, planted)) {
        ClusterSimulation.Outcome outcome = simulation.run();
        gets += outcome.gets();
        fetched += outcome.fetched();
        pushed += outcome.pushed();
        expected += outcome.expected();
        pieces += outcome.pieces();
        restarts += outcome.restarts();
        changes += outcome.changes();
      } catch (RuntimeException | IOException | ProtocolViolation | AssertionError e) {
        failed++;
        if (failed <= SHOWN) {
          System.out.println("FAILED seed " + seed + ": " + e);
          if (count == 1) {
            e.printStackTrace(System.out);
          }
          System.out.println(
              "  again: scripts/simulate --cluster --seed "
                  + seed
                  + (planted == ClusterSimulation.Planted.NONE
                      ? ""
                      : " --plant " + planted.name().toLowerCase(Locale.ROOT)));
        }
      }
    }
    System.out.printf(
        Locale.ROOT,
        "%d seeds of clusters, %d failed, %.1f s; %d gets answered, %d blocks fetched, %d pushed, %d expected blocks came in %d pieces, %d restarts, %d nodes left or came back%n",
        count,
        failed,
        (System.nanoTime() - start) / 1e9,
        gets,
        fetched,
        pushed,
        expected,
        pieces,
        restarts,
        changes);
    System.exit(failed == 0 ? 0 : 1);
  }
}

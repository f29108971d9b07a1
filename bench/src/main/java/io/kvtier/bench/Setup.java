package io.kvtier.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * Where a run finds its parts, and how long it takes.
 *
 * @param root the checkout
 * @param python a Python that has the client
 * @param mooncakePython a Python that has Mooncake; empty where there is none
 * @param mooncakeProblem why there is none
 */
record Setup(
    Path root, String python, String mooncakePython, String mooncakeProblem, boolean quick) {
  private static final long MS = 1_000_000;

  /** From the properties that {@code scripts/bench} sets. */
  static Setup ofProperties(boolean quick) {
    return new Setup(
        Path.of(System.getProperty("kvtier.root", ".")),
        System.getProperty("kvtier.bench.python", "python3"),
        System.getProperty("kvtier.bench.mooncake.python", ""),
        System.getProperty("kvtier.bench.mooncake.problem", "not installed"),
        quick);
  }

  int warmUps() {
    return quick ? 2 : 4;
  }

  int rounds() {
    return quick ? 3 : 11;
  }

  /** How long each thing is measured in each round. */
  long sliceNs() {
    return (quick ? 100 : 300) * MS;
  }

  /** The same, for things of which there is one in some milliseconds. */
  long idleSliceNs() {
    return (quick ? 300 : 1000) * MS;
  }

  int idleRounds() {
    return quick ? 2 : 5;
  }

  /** A disk's speed comes and goes within seconds. */
  long diskSliceNs() {
    return (quick ? 500 : 1000) * MS;
  }

  int diskRounds() {
    return quick ? 2 : 7;
  }

  int killRounds() {
    return quick ? 2 : 5;
  }

  /** Long enough that each collector stops the daemon some times. */
  long collectorSliceNs() {
    return (quick ? 2_000 : 10_000) * MS;
  }

  int collectorRounds() {
    return quick ? 2 : 5;
  }

  long idleProcessorMs() {
    return quick ? 3_000 : 10_000;
  }

  Worker startPython() throws IOException {
    return new Worker(List.of(python, "-u", root.resolve("bench/worker.py").toString()));
  }

  Worker startMooncake() throws IOException {
    if (mooncakePython.isEmpty()) {
      throw new Worker.Refusal(mooncakeProblem);
    }
    return new Worker(
        List.of(mooncakePython, "-u", root.resolve("bench/mooncake_worker.py").toString()));
  }
}

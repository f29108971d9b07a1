package io.kvtier.bench;

import io.kvtier.client.KvtierClient;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Single blocks of 4 KiB with a copy, one call after the other; the same of Mooncake's sidecar. */
final class SmallBlockScenario {
  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 1 << 14;
  private static final long HOST_BYTES = 1L << 30;
  private static final String SPIN = "spin";

  private final Setup setup;

  SmallBlockScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Worker mooncake = null;
    String problem = "";
    try {
      try {
        mooncake = setup.startMooncake();
        var _ = mooncake.ask("open " + BLOCK_BYTES + " " + BLOCKS);
      } catch (Worker.Refusal refusal) {
        problem = String.valueOf(refusal.getMessage());
        if (mooncake != null) {
          mooncake.close();
          mooncake = null;
        }
      }
      report(report, measure(mooncake), mooncake == null ? problem : null);
    } finally {
      if (mooncake != null) {
        mooncake.close();
      }
    }
  }

  private Rounds measure(@Nullable Worker mooncake) throws Exception {
    try (DaemonProcess javaDaemon = new DaemonProcess(setup.root(), HOST_BYTES);
        DaemonProcess pythonDaemon = new DaemonProcess(setup.root(), HOST_BYTES);
        PingPong pingPong = new PingPong();
        KvtierClient client = javaDaemon.connect();
        JavaCopies java = new JavaCopies(client, BLOCK_BYTES, BLOCKS, 1);
        Worker python = setup.startPython()) {
      var _ = python.ask("open " + pythonDaemon.socket());
      var _ = python.ask("fill " + BLOCK_BYTES + " " + BLOCKS + " 1");
      long sliceNs = setup.sliceNs();
      long sliceMs = sliceNs / 1_000_000;
      return Rounds.measure(
          setup.warmUps(),
          setup.rounds(),
          into -> {
            into.add(SPIN, 1e6 / pingPong.spinUs(sliceNs));
            into.add("java_get", java.get(sliceNs).perS());
            into.add("python_get", python.ask("get " + sliceMs, "per_s"));
            if (mooncake != null) {
              into.add("mooncake_get", fastest(mooncake.ask("get " + sliceMs)));
            }
            into.add("java_put", java.put(sliceNs).perS());
            into.add("python_put", python.ask("put " + sliceMs, "per_s"));
            if (mooncake != null) {
              into.add("mooncake_put", fastest(mooncake.ask("put " + sliceMs)));
            }
          });
    }
  }

  /** Of the ways that the peer offers. */
  private static double fastest(Map<String, Double> answer) {
    return answer.values().stream().mapToDouble(Double::doubleValue).max().orElseThrow();
  }

  private static void report(Report report, Rounds rounds, @Nullable String problem) {
    for (String way : new String[] {"get", "put"}) {
      for (String language : new String[] {"java", "python"}) {
        String what = language + "_" + way;
        report.add(
            new Row(
                what + "_4KiB_per_s",
                rounds.median(what),
                "1/s",
                "spin ping-pongs in a second",
                rounds.median(SPIN)));
      }
    }
    for (String way : new String[] {"get", "put"}) {
      String peer = "mooncake_" + way + "_4KiB_per_s";
      if (problem != null) {
        report.add(Row.skipped(peer, "1/s", problem));
      } else {
        report.add(Row.plain(peer, rounds.median("mooncake_" + way), "1/s"));
      }
      for (String language : new String[] {"python", "java"}) {
        String name = language + "_" + way + "_4KiB_vs_mooncake";
        if (problem != null) {
          report.add(Row.skipped(name, "x", problem));
        } else {
          double ratio = rounds.median(language + "_" + way) / rounds.median("mooncake_" + way);
          report.add(new Row(name, ratio, "x", peer + ", called from Python", 1));
        }
      }
    }
  }
}

package io.kvtier.bench;

import io.kvtier.client.BlockLease;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.HdrHistogram.Histogram;

/**
 * What the daemon's garbage collector costs those who wait: gets over the local socket at a steady
 * pace, beside puts over gRPC that make garbage as fast as they can, in a daemon with tables for
 * four million blocks. A daemon for each collector, which take turns.
 */
final class CollectorScenario {
  private enum Collector {
    SERIAL(""),
    PARALLEL("-XX:-UseSerialGC -XX:+UseParallelGC"),
    G1("-XX:-UseSerialGC -XX:+UseG1GC"),
    Z("-XX:-UseSerialGC -XX:+UseZGC");

    private final String flags;

    Collector(String flags) {
      this.flags = flags;
    }

    String row(String what) {
      return name().toLowerCase(Locale.ROOT) + "_" + what;
    }
  }

  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 1024;
  private static final int FILL_BATCH = 64;
  private static final int GREEDY_BLOCK_BYTES = 1 << 20;
  private static final int GREEDY_BATCH = 8;
  private static final long SHARE_BYTES = 256L << 20;
  private static final int TABLE_BLOCKS = 4_000_000;
  private static final long PACE_NS = 1_000_000;
  private static final int DIGITS = 3;
  private static final Pattern STOPPED = Pattern.compile("Safepoint .*Total: +([0-9]+) ns");

  private final Setup setup;

  CollectorScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Path logs = Files.createTempDirectory("kvtier-collectors-");
    Map<Collector, Measured> all = new EnumMap<>(Collector.class);
    try {
      for (Collector collector : Collector.values()) {
        all.put(collector, new Measured(setup.root(), collector, logs));
      }
      for (Measured one : all.values()) {
        one.run(setup.collectorSliceNs() / 2);
        one.forget();
      }
      for (int i = 0; i < setup.collectorRounds(); i++) {
        for (Measured one : all.values()) {
          one.run(setup.collectorSliceNs());
        }
      }
      Measured serial = Objects.requireNonNull(all.get(Collector.SERIAL));
      for (Measured one : all.values()) {
        one.report(report, serial);
      }
    } finally {
      for (Measured one : all.values()) {
        one.close();
      }
      for (Collector collector : Collector.values()) {
        boolean _ = Files.deleteIfExists(log(logs, collector));
      }
      Files.delete(logs);
    }
  }

  private static Path log(Path folder, Collector collector) {
    return folder.resolve(collector.row("log"));
  }

  /** A daemon and what was seen of it. */
  private static final class Measured implements AutoCloseable {
    private final Collector collector;
    private final Path log;
    private final DaemonProcess daemon;
    private final KvtierClient client;
    private final JavaCopies blocks;
    private final Histogram latency = new Histogram(DIGITS);
    private final List<Long> stops = new ArrayList<>();
    private double seconds;
    private double processorSeconds;
    private long bytes;
    private int turn;

    Measured(Path root, Collector collector, Path logs) throws Exception {
      this.collector = collector;
      log = log(logs, collector);
      daemon =
          new DaemonProcess(
              root,
              2 * SHARE_BYTES,
              (collector.flags + " -Xlog:safepoint:file=" + log + "::filecount=0").strip(),
              List.of(
                  "tenants=name=modest users="
                      + SocketPaths.uid()
                      + " host_bytes="
                      + SHARE_BYTES
                      + "B",
                  "limits.blocks=" + TABLE_BLOCKS,
                  "grpc.enabled=true",
                  "grpc.port=0"));
      KvtierClient connected = null;
      try {
        connected = daemon.connect();
        blocks = new JavaCopies(connected, BLOCK_BYTES, BLOCKS, FILL_BATCH);
      } catch (Exception e) {
        if (connected != null) {
          connected.close();
        }
        daemon.close();
        throw e;
      }
      client = connected;
    }

    void run(long durationNs) throws Exception {
      int greedyBlocks = (int) (2 * SHARE_BYTES / GREEDY_BLOCK_BYTES);
      try (GreedyPuts greedy =
          new GreedyPuts(daemon.grpcAddress(), GREEDY_BLOCK_BYTES, greedyBlocks, GREEDY_BATCH)) {
        int stopsBefore = stopsInLog().size();
        double processorBefore = Machine.processorSeconds(daemon.pid());
        long begun = System.nanoTime();
        acquire(begun + durationNs);
        seconds += (System.nanoTime() - begun) / 1e9;
        processorSeconds += Machine.processorSeconds(daemon.pid()) - processorBefore;
        List<Long> logged = stopsInLog();
        stops.addAll(logged.subList(stopsBefore, logged.size()));
        greedy.stop();
        bytes += greedy.bytes();
      }
    }

    private void acquire(long end) throws Exception {
      List<Keys> keys = blocks.getKeys();
      try (BlockLease lease = client.blocking().newLease()) {
        for (long due = System.nanoTime(); due - end < 0; due += PACE_NS) {
          for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
            LockSupport.parkNanos(left);
          }
          boolean _ = lease.release();
          turn = (turn + 1) % keys.size();
          Status status = lease.acquire(blocks.gets(), keys.get(turn), 0, Options.DEFAULT);
          if (status != Status.OK) {
            throw new IllegalStateException("a block of the modest tenant is " + status);
          }
          // From when it was due: who comes during a stop waits for its end.
          latency.recordValue(System.nanoTime() - due);
        }
      }
    }

    private List<Long> stopsInLog() throws IOException {
      List<Long> found = new ArrayList<>();
      for (String line : Files.readAllLines(log)) {
        Matcher matcher = STOPPED.matcher(line);
        if (matcher.find()) {
          found.add(Long.parseLong(matcher.group(1)));
        }
      }
      return found;
    }

    /** What came before the code was compiled does not count. */
    void forget() {
      latency.reset();
      stops.clear();
      seconds = 0;
      processorSeconds = 0;
      bytes = 0;
    }

    void report(Report report, Measured serial) {
      row(report, serial, "get_p50_us", "us");
      row(report, serial, "get_p99_us", "us");
      row(report, serial, "get_p999_us", "us");
      row(report, serial, "get_max_us", "us");
      row(report, serial, "stop_max_ms", "ms");
      row(report, serial, "stopped_ms_per_s", "ms/s");
      row(report, serial, "grpc_put_gbps", "GB/s");
      row(report, serial, "cpu_percent", "%");
    }

    private void row(Report report, Measured serial, String what, String unit) {
      String limitName = this == serial ? "" : Collector.SERIAL.row(what);
      double limit = this == serial ? Double.NaN : serial.figure(what);
      report.add(new Row(collector.row(what), figure(what), unit, limitName, limit));
    }

    private double figure(String what) {
      return switch (what) {
        case "get_p50_us" -> latency.getValueAtPercentile(50) / 1e3;
        case "get_p99_us" -> latency.getValueAtPercentile(99) / 1e3;
        case "get_p999_us" -> latency.getValueAtPercentile(99.9) / 1e3;
        case "get_max_us" -> latency.getMaxValue() / 1e3;
        case "stop_max_ms" -> stops.stream().mapToLong(Long::longValue).max().orElse(0) / 1e6;
        case "stopped_ms_per_s" -> stops.stream().mapToLong(Long::longValue).sum() / 1e6 / seconds;
        case "grpc_put_gbps" -> bytes / 1e9 / seconds;
        case "cpu_percent" -> 100 * processorSeconds / seconds;
        default -> throw new IllegalArgumentException(what);
      };
    }

    @Override
    public void close() throws IOException {
      blocks.close();
      client.close();
      daemon.close();
    }
  }
}

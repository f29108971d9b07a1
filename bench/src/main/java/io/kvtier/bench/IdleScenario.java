package io.kvtier.bench;

import io.kvtier.client.BlockLease;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.util.List;

/** A daemon that sleeps between requests: what waking it costs, and what it costs asleep. */
final class IdleScenario {
  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 1024;
  private static final int GAP_MS = 5;
  private static final long HOST_BYTES = 2L << 30;
  private static final String FUTEX = "futex_pingpong_idle_p50_us";
  private static final double PERCENT_MAX = 1;

  private final Setup setup;
  private final Sampler sampler = new Sampler();
  private int turn;

  IdleScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Rounds rounds;
    double percent;
    try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
        PingPong pingPong = new PingPong();
        KvtierClient client = daemon.connect();
        JavaCopies blocks = new JavaCopies(client, BLOCK_BYTES, BLOCKS, 1);
        Worker python = setup.startPython();
        BlockLease lease = client.blocking().newLease()) {
      var _ = python.ask("open " + daemon.socket());
      var _ = python.ask("namespace " + BLOCK_BYTES);
      List<Keys> keys = blocks.getKeys();
      warmUp(lease, blocks, python);
      long sliceNs = setup.idleSliceNs();
      long sliceMs = sliceNs / 1_000_000;
      rounds =
          Rounds.measure(
              1,
              setup.idleRounds(),
              into -> {
                into.add(FUTEX, pingPong.futexUs(sliceNs, GAP_MS));
                long end = System.nanoTime() + sliceNs;
                long[] took = new long[(int) (sliceMs / GAP_MS) + 1];
                int count = 0;
                while (count < took.length && System.nanoTime() - end < 0) {
                  Thread.sleep(GAP_MS);
                  turn = (turn + 1) % keys.size();
                  long started = System.nanoTime();
                  Status status = lease.acquire(blocks.gets(), keys.get(turn), 0, Options.DEFAULT);
                  took[count++] = System.nanoTime() - started;
                  require(status);
                  boolean _ = lease.release();
                }
                into.add(
                    "java_acquire_idle_p50_us", Statistics.percentile(took, count, 0.5) / 1000.0);
                into.add(
                    "python_acquire_idle_p50_us",
                    python.ask("latency acquire 1 " + GAP_MS + " " + sliceMs, "p50"));
              });
      Thread.sleep(200);
      double before = Machine.processorSeconds(daemon.pid());
      long started = System.nanoTime();
      Thread.sleep(setup.idleProcessorMs());
      double seconds = (System.nanoTime() - started) / 1e9;
      percent = 100 * (Machine.processorSeconds(daemon.pid()) - before) / seconds;
    }
    report.add(Row.plain(FUTEX, rounds.median(FUTEX), "us"));
    for (String language : new String[] {"java", "python"}) {
      Row row = rounds.row(language + "_acquire_idle_p50_us", "us", FUTEX);
      report.add(row);
      report.add(
          Row.plain(language + "_acquire_idle_over_bare_us", row.value() - row.limit(), "us"));
    }
    report.add(new Row("idle_daemon_cpu_percent", percent, "%", "1 % of a core", PERCENT_MAX));
  }

  /** Compiled code on all sides, before the few and slow samples. */
  private void warmUp(BlockLease lease, JavaCopies blocks, Worker python) throws Exception {
    long sliceNs = setup.idleSliceNs();
    sampler.time(
        sliceNs,
        () -> {
          require(lease.acquire(blocks.gets(), blocks.getKeys().getFirst(), 0, Options.DEFAULT));
          boolean _ = lease.release();
        });
    var _ = python.ask("latency acquire 1 0 " + sliceNs / 1_000_000);
  }

  private static void require(Status status) {
    if (status != Status.OK) {
      throw new IllegalStateException("answered " + status);
    }
  }
}

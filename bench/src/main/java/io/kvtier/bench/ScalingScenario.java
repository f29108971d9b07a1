package io.kvtier.bench;

import io.kvtier.client.BlockLease;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** How cost grows with what an operator has more of, one thing at a time. */
final class ScalingScenario {
  private static final int[] CLIENTS = {1, 2, 4, 8, 16};
  private static final int[] BLOCKS = {1_000, 10_000, 100_000, 1_000_000, 10_000_000};
  private static final int BLOCK_BYTES = 4096;
  private static final int ACQUIRED_BLOCKS = 1 << 14;
  private static final int FILL_BATCH = 64;
  private static final long HOST_BYTES = 1L << 30;

  private static final CopyScenario.Size[] SIZES = {
    new CopyScenario.Size("4KiB", 4 << 10, 64),
    new CopyScenario.Size("16KiB", 16 << 10, 64),
    new CopyScenario.Size("64KiB", 64 << 10, 32),
    new CopyScenario.Size("256KiB", 256 << 10, 16),
    new CopyScenario.Size("1MiB", 1 << 20, 8),
    new CopyScenario.Size("4MiB", 4 << 20, 4),
    new CopyScenario.Size("16MiB", 16 << 20, 2)
  };

  private final Setup setup;

  ScalingScenario(Setup setup) {
    this.setup = setup;
  }

  /** Leases of single blocks by several sessions at once, each waiting for its answer. */
  void clients(Report report) throws Exception {
    for (int count : CLIENTS) {
      Rounds rounds;
      List<Leaser> leasers = new ArrayList<>();
      try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
          KvtierClient first = daemon.connect();
          JavaCopies blocks = new JavaCopies(first, BLOCK_BYTES, ACQUIRED_BLOCKS, FILL_BATCH);
          ExecutorService threads = Executors.newFixedThreadPool(count)) {
        try {
          for (int i = 0; i < count; i++) {
            leasers.add(new Leaser(daemon.connect(), blocks, i));
          }
          rounds =
              Rounds.measure(
                  setup.warmUps(), setup.rounds(), into -> round(into, leasers, threads));
        } finally {
          leasers.forEach(Leaser::close);
        }
      }
      String name = "scaling_clients_" + count;
      report.add(Row.plain(name + "_acquire_per_s", rounds.median("per_s"), "1/s"));
      report.add(Row.plain(name + "_acquire_p50_us", rounds.median("p50"), "us"));
      report.add(Row.plain(name + "_acquire_p99_us", rounds.median("p99"), "us"));
    }
  }

  private void round(Rounds into, List<Leaser> leasers, ExecutorService threads) throws Exception {
    long slice = setup.sliceNs();
    List<Future<Leaser>> running = new ArrayList<>();
    for (Leaser leaser : leasers) {
      running.add(threads.submit(() -> leaser.run(slice)));
    }
    double perS = 0;
    double p50 = 0;
    double p99 = 0;
    for (Future<Leaser> one : running) {
      Leaser leaser = one.get();
      perS += leaser.perS;
      p50 += leaser.sampler.us(0.5) / leasers.size();
      p99 = Math.max(p99, leaser.sampler.us(0.99));
    }
    into.add("per_s", perS);
    into.add("p50", p50);
    into.add("p99", p99);
  }

  /** A session that leases one block after the other. */
  private static final class Leaser implements AutoCloseable {
    private final KvtierClient client;
    private final JavaCopies blocks;
    private final Namespace namespace;
    private final BlockLease lease;
    private final Sampler sampler = new Sampler();
    private int turn;
    private double perS;

    Leaser(KvtierClient client, JavaCopies blocks, int number) {
      this.client = client;
      this.blocks = blocks;
      namespace =
          client.namespace(blocks.gets().name(), BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
      lease = client.blocking().newLease();
      turn = number;
    }

    Leaser run(long sliceNs) throws Exception {
      long started = System.nanoTime();
      long[] done = new long[1];
      sampler.time(
          sliceNs,
          () -> {
            boolean _ = lease.release();
            turn = (turn + 1) % blocks.getKeys().size();
            Status status =
                lease.acquire(namespace, blocks.getKeys().get(turn), 0, Options.DEFAULT);
            if (status != Status.OK) {
              throw new IllegalStateException("an acquire ended " + status);
            }
            done[0]++;
          });
      perS = done[0] * 1e9 / (System.nanoTime() - started);
      return this;
    }

    @Override
    public void close() {
      lease.close();
      client.close();
    }
  }

  /** The directory from what fits into a cache to what does not. */
  void blocks(Report report) throws Exception {
    // Inserts are measured once each: the first ones would be those of an interpreter.
    new DirectoryBench(BLOCKS[3], true).run(new Report());
    for (int count : BLOCKS) {
      new DirectoryBench(count, setup.quick()).run(report);
    }
  }

  /** Gets and puts with a copy, from pages to the largest blocks. */
  void sizes(Report report) throws Exception {
    for (CopyScenario.Size size : SIZES) {
      int blocks = CopyScenario.WORKING_SET_BYTES / size.bytes();
      Rounds rounds;
      try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
          Memcpy memcpy = new Memcpy(size.bytes(), blocks, size.batch());
          KvtierClient client = daemon.connect();
          JavaCopies copies = new JavaCopies(client, size.bytes(), blocks, size.batch())) {
        long slice = setup.sliceNs();
        rounds =
            Rounds.measure(
                setup.warmUps(),
                setup.rounds(),
                into -> {
                  into.add("memcpy_get", memcpy.getGbps(slice));
                  into.add("get", copies.get(slice).gbps());
                  into.add("memcpy_put", memcpy.putGbps(slice));
                  into.add("put", copies.put(slice).gbps());
                });
      }
      for (String way : new String[] {"get", "put"}) {
        report.add(
            new Row(
                "scaling_size_" + size.name() + "_" + way + "_gbps",
                rounds.median(way),
                "GB/s",
                "memcpy of the same blocks, " + size.batch() + " a call",
                rounds.median("memcpy_" + way)));
      }
    }
  }
}

package io.kvtier.bench;

import io.kvtier.client.BlockLease;
import io.kvtier.client.BlockingClient;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.LeasePipeline;
import io.kvtier.client.Leases;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** How long a busy daemon takes to answer, against bare words through shared memory. */
final class LatencyScenario {
  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 1 << 14;
  private static final int FILL_BATCH = 64;
  private static final int IN_FLIGHT = 256;
  private static final long HOST_BYTES = 2L << 30;
  private static final int[] LOOKUPS = {1, 32, 256};
  private static final String SPIN = "spin_pingpong_p50_us";
  private static final String FUTEX = "futex_pingpong_p50_us";
  private static final String RING = "ring_echo_per_s";

  private final Setup setup;
  private final Sampler sampler = new Sampler();
  private int turn;

  LatencyScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Rounds rounds;
    try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
        PingPong pingPong = new PingPong();
        KvtierClient client = daemon.connect();
        JavaCopies blocks = new JavaCopies(client, BLOCK_BYTES, BLOCKS, FILL_BATCH);
        Arena arena = Arena.ofShared();
        Worker python = setup.startPython()) {
      var _ = python.ask("open " + daemon.socket());
      var _ = python.ask("namespace " + BLOCK_BYTES);
      rounds =
          Rounds.measure(
              setup.warmUps(),
              setup.rounds(),
              into -> {
                long slice = setup.sliceNs();
                into.add(SPIN, pingPong.spinUs(slice));
                java(into, slice, client, blocks, arena);
                into.add(RING, pingPong.ringPerS(slice, IN_FLIGHT));
                into.add(FUTEX, pingPong.futexUs(slice, 0));
                python(into, slice / 1_000_000, python);
                into.add(SPIN, pingPong.spinUs(slice));
              });
    }
    if (rounds.median(SPIN) > rounds.median(FUTEX)) {
      System.err.println(
          "bench: a word comes back sooner to a sleeper than to a spinner: other programs want these"
              + " cores, and the rows held against "
              + SPIN
              + " say little");
    }
    report.add(Row.plain(SPIN, rounds.median(SPIN), "us"));
    report.add(Row.plain(FUTEX, rounds.median(FUTEX), "us"));
    report.add(Row.plain(RING, rounds.median(RING), "1/s"));
    for (String language : List.of("java", "python")) {
      String limit = language.equals("java") ? SPIN : SPIN + ", Java to Java";
      latency(report, rounds, language + "_ping", limit);
      latency(report, rounds, language + "_acquire", limit);
      String p99 = language + "_acquire_p99_us";
      report.add(rounds.row(p99, "us", limit, SPIN, us -> us));
      latency(report, rounds, language + "_acquire_release", limit);
      for (int keys : LOOKUPS) {
        latency(report, rounds, language + "_lookup_" + keys, limit);
      }
      latency(report, rounds, language + "_acquire_256", limit);
      report.add(rounds.row(language + "_acquire_pipelined_per_s", "1/s", RING));
    }
  }

  private static void latency(Report report, Rounds rounds, String what, String limitName) {
    Row row = rounds.row(what + "_p50_us", "us", limitName, SPIN, us -> us);
    report.add(row);
    report.add(Row.plain(what + "_over_bare_us", row.value() - row.limit(), "us"));
  }

  private void java(Rounds into, long slice, KvtierClient client, JavaCopies blocks, Arena arena)
      throws Exception {
    BlockingClient blocking = client.blocking();
    List<Keys> keys = blocks.getKeys();
    into.add(
        "java_ping_p50_us", sampler.time(slice, () -> require(blocking.ping().status())).us(0.5));
    try (BlockLease lease = blocking.newLease()) {
      // The release of the lease before is on its way meanwhile, as it is in real life.
      sampler.time(
          slice,
          () -> {
            boolean _ = lease.release();
            require(lease.acquire(blocks.gets(), keys.get(next(keys.size())), 0, Options.DEFAULT));
          });
      into.add("java_acquire_p50_us", sampler.us(0.5));
      into.add("java_acquire_p99_us", sampler.us(0.99));
    }
    into.add(
        "java_acquire_release_p50_us",
        sampler
            .time(
                slice,
                () -> {
                  try (Leases leases =
                      blocking.acquire(blocks.gets(), keys.get(next(keys.size())).slice(0, 1))) {
                    require(leases.release().status());
                  }
                })
            .us(0.5));
    for (int count : LOOKUPS) {
      List<Keys> asked = keysOf(count, arena);
      into.add(
          "java_lookup_" + count + "_p50_us",
          sampler
              .time(
                  slice,
                  () -> {
                    LookupResult result =
                        blocking.lookup(blocks.gets(), asked.get(next(asked.size())));
                    if (result.run() != count) {
                      throw new IllegalStateException(count + " keys, " + result);
                    }
                  })
              .us(0.5));
    }
    List<Keys> many = keysOf(256, arena);
    into.add(
        "java_acquire_256_p50_us",
        sampler
            .time(
                slice,
                () -> {
                  try (Leases leases =
                      blocking.acquire(blocks.gets(), many.get(next(many.size())))) {
                    if (leases.granted() != 256) {
                      throw new IllegalStateException(leases.granted() + " of 256 leases");
                    }
                  }
                })
            .us(0.5));
    into.add("java_acquire_pipelined_per_s", pipelined(slice, blocking, blocks, many));
  }

  private double pipelined(
      long slice, BlockingClient blocking, JavaCopies blocks, List<Keys> keys) {
    try (LeasePipeline pipeline = blocking.newPipeline(blocks.gets(), IN_FLIGHT, Options.DEFAULT)) {
      LeasePipeline.Handler handler = (tag, status, block) -> require(status);
      long done = 0;
      int place = 0;
      long started = System.nanoTime();
      while (System.nanoTime() - started < slice) {
        while (pipeline.offer(keys.get(place >> 8), place & 255, place) == Status.OK) {
          place = (place + 1) % (keys.size() << 8);
        }
        pipeline.flush();
        done += pipeline.drain(handler, IN_FLIGHT / 2);
      }
      done += pipeline.drain(handler, Integer.MAX_VALUE);
      return done * 1e9 / (System.nanoTime() - started);
    }
  }

  private static void python(Rounds into, long sliceMs, Worker worker) throws Exception {
    into.add("python_ping_p50_us", worker.ask("latency ping 1 0 " + sliceMs, "p50"));
    Map<String, Double> acquire = worker.ask("latency acquire 1 0 " + sliceMs);
    into.add("python_acquire_p50_us", number(acquire, "p50"));
    into.add("python_acquire_p99_us", number(acquire, "p99"));
    into.add(
        "python_acquire_release_p50_us",
        worker.ask("latency acquire_release 1 0 " + sliceMs, "p50"));
    for (int count : LOOKUPS) {
      into.add(
          "python_lookup_" + count + "_p50_us",
          worker.ask("latency lookup " + count + " 0 " + sliceMs, "p50"));
    }
    into.add("python_acquire_256_p50_us", worker.ask("latency acquire 256 0 " + sliceMs, "p50"));
    into.add("python_acquire_pipelined_per_s", worker.ask("pipelined 64 " + sliceMs, "per_s"));
  }

  private static double number(Map<String, Double> answer, String name) {
    Double number = answer.get(name);
    if (number == null) {
      throw new IllegalStateException("a worker answered without " + name + ": " + answer);
    }
    return number;
  }

  private int next(int bound) {
    turn = (turn + 1) % bound;
    return turn;
  }

  private static List<Keys> keysOf(int count, Arena arena) {
    List<Keys> batches = new ArrayList<>();
    for (int batch = 0; batch < 16; batch++) {
      MemorySegment bytes = arena.allocate((long) count * BenchKeys.KEY_BYTES, 8);
      for (int i = 0; i < count; i++) {
        BenchKeys.put(
            bytes,
            (long) i * BenchKeys.KEY_BYTES,
            JavaCopies.GET_TAG,
            (batch * count + i) % BLOCKS);
      }
      batches.add(Keys.wrap(bytes, BenchKeys.KEY_BYTES));
    }
    return batches;
  }

  private static void require(Status status) {
    if (status != Status.OK) {
      throw new IllegalStateException("answered " + status);
    }
  }
}

package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What SIGKILL costs the others. A daemon is killed under clients that get and put, and started
 * again: how soon they hear of it, and how soon they hit again. A client is killed that holds
 * leases, reservations and a half-written slot: how soon the daemon has all of it back.
 */
final class KillScenario {
  private static final int BLOCK_BYTES = 256 << 10;
  private static final int BLOCKS = 64;
  private static final int RESERVATIONS = 8;
  private static final long HOST_BYTES = 256L << 20;
  private static final long TIMEOUT_MS = 2_000;
  private static final long LOAD_MS = 500;
  private static final long PAUSE_NS = 500_000;
  private static final long RELEASE_NS_MAX = 10_000_000_000L;
  private static final String TIMEOUT = "the operations' timeout";

  /** When, on the clock that all processes share, and how long the slowest call took. */
  private record Ride(double goneNs, double hitNs, double longestNs) {}

  private final Setup setup;

  KillScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Rounds daemons = Rounds.measure(0, setup.killRounds(), this::killDaemon);
    for (String language : new String[] {"java", "python"}) {
      for (String what : new String[] {"_kill_to_miss_ms", "_longest_call_ms"}) {
        double value = daemons.median(language + what);
        report.add(new Row(language + what, value, "ms", TIMEOUT, TIMEOUT_MS));
      }
      String hit = language + "_ready_to_hit_ms";
      report.add(Row.plain(hit, daemons.median(hit), "ms"));
    }
    String ready = "daemon_start_to_ready_ms";
    report.add(Row.plain(ready, daemons.median(ready), "ms"));
    String released = "client_kill_to_released_ms";
    Rounds clients = Rounds.measure(0, setup.killRounds(), this::killClient);
    report.add(Row.plain(released, clients.median(released), "ms"));
  }

  private void killDaemon(Rounds into) throws Exception {
    try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
        KvtierClient client =
            KvtierClient.builder()
                .socket(daemon.socket())
                .name("bench-ride")
                .timeout(Duration.ofMillis(TIMEOUT_MS))
                .build();
        Worker python = setup.startPython()) {
      var _ = client.connect();
      var _ = python.ask("open " + daemon.socket());
      CompletableFuture<Ride> java = new CompletableFuture<>();
      Thread.ofPlatform()
          .name("bench-ride")
          .start(() -> {
            try {
              java.complete(ride(client));
            } catch (RuntimeException | Error e) {
              java.completeExceptionally(e);
            }
          });
      python.send("ride " + BLOCK_BYTES + " " + TIMEOUT_MS / 1000);
      Thread.sleep(LOAD_MS);
      long killedNs = System.nanoTime();
      daemon.kill();
      Thread.sleep(LOAD_MS);
      long startedNs = System.nanoTime();
      daemon.restart();
      long readyNs = System.nanoTime();
      Map<String, Double> answer = python.answer();
      note(
          into,
          "python",
          new Ride(
              number(answer, "gone_ns"), number(answer, "hit_ns"), number(answer, "longest_ns")),
          killedNs,
          readyNs);
      note(into, "java", java.get(), killedNs, readyNs);
      into.add("daemon_start_to_ready_ms", (readyNs - startedNs) / 1e6);
    }
  }

  private static void note(Rounds into, String language, Ride ride, long killedNs, long readyNs) {
    into.add(language + "_kill_to_miss_ms", (ride.goneNs() - killedNs) / 1e6);
    into.add(language + "_ready_to_hit_ms", (ride.hitNs() - readyNs) / 1e6);
    into.add(language + "_longest_call_ms", ride.longestNs() / 1e6);
  }

  private static double number(Map<String, Double> answer, String name) {
    Double value = answer.get(name);
    if (value == null) {
      throw new IllegalStateException("no " + name + " in " + answer);
    }
    return value;
  }

  /** As {@code ride} of {@code worker.py}. */
  private static Ride ride(KvtierClient client) {
    try (Arena arena = Arena.ofConfined()) {
      Namespace namespace =
          client.namespace("bench-ride-java", BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
      MemorySegment content = arena.allocate(BLOCK_BYTES, 64);
      MemorySegment target = arena.allocate(BLOCK_BYTES, 64);
      MemorySegment keyBytes = arena.allocate(BenchKeys.KEY_BYTES, 8);
      Keys key = Keys.wrap(keyBytes, BenchKeys.KEY_BYTES);
      long gone = 0;
      long hit = 0;
      long longest = 0;
      for (int turn = 0; hit == 0; turn++) {
        BenchKeys.put(keyBytes, 0, JavaCopies.GET_TAG, turn % BLOCKS);
        fill(content, turn % BLOCKS);
        long started = System.nanoTime();
        Status status = client.blocking().get(namespace, key, List.of(target)).blocks().status(0);
        long answered = System.nanoTime();
        longest = Math.max(longest, answered - started);
        switch (status) {
          case OK -> {
            if (target.mismatch(content) >= 0) {
              throw new IllegalStateException("block " + turn % BLOCKS + " came with other bytes");
            }
            hit = gone == 0 ? 0 : answered;
          }
          case UNAVAILABLE -> {
            gone = gone == 0 ? answered : gone;
            LockSupport.parkNanos(PAUSE_NS);
          }
          case MISS -> {
            BatchResult put = client.blocking().put(namespace, key, List.of(content));
            longest = Math.max(longest, System.nanoTime() - answered);
            if (put.blocks().status(0) == Status.UNAVAILABLE && gone == 0) {
              gone = System.nanoTime();
            }
            turn--; // the next get takes the same block
          }
          default -> throw new IllegalStateException("a get was answered " + status);
        }
      }
      return new Ride(gone, hit, longest);
    }
  }

  private static void fill(MemorySegment content, int number) {
    for (long at = 0; at < BLOCK_BYTES; at += Long.BYTES) {
      content.set(ValueLayout.JAVA_LONG, at, number);
    }
  }

  private void killClient(Rounds into) throws Exception {
    try (DaemonProcess daemon = new DaemonProcess(setup.root(), HOST_BYTES);
        KvtierClient watcher = daemon.connect();
        Worker python = setup.startPython()) {
      var _ = python.ask("open " + daemon.socket());
      var _ = python.ask("fill " + BLOCK_BYTES + " " + BLOCKS + " 8");
      var _ = python.ask("hold " + BLOCKS + " " + RESERVATIONS);
      String stats =
          await(
              watcher,
              all -> count(all, "leases") == BLOCKS && count(all, "reservations") == RESERVATIONS);
      String session = "\"pid\":" + python.pid() + ",";
      if (!stats.contains(session)) {
        throw new IllegalStateException("the client has no session: " + stats);
      }
      long killedNs = System.nanoTime();
      python.kill();
      var _ = await(watcher, all -> !all.contains(session));
      into.add("client_kill_to_released_ms", (System.nanoTime() - killedNs) / 1e6);
      // The gauges follow a little later.
      var _ =
          await(
              watcher,
              all ->
                  count(all, "leases") == 0
                      && count(all, "reservations") == 0
                      && count(all, "host_slots_in_flight") == 0
                      && count(all, "host_slots_resident") == BLOCKS
                      && count(all, "host_slots_free") + BLOCKS == count(all, "host_slots_total"));
    }
  }

  /** The first statistics that are as they shall be. */
  private static String await(KvtierClient watcher, Predicate<String> wanted) throws Exception {
    long startedNs = System.nanoTime();
    String stats = stats(watcher);
    while (!wanted.test(stats)) {
      if (System.nanoTime() - startedNs > RELEASE_NS_MAX) {
        throw new IllegalStateException("the statistics stay as they are: " + stats);
      }
      Thread.sleep(0, 200_000);
      stats = stats(watcher);
    }
    return stats;
  }

  /** What {@code kvtier stats --json} prints: of this moment. */
  private static String stats(KvtierClient client) {
    TextResult result = client.blocking().stats();
    if (result.status() != Status.OK) {
      throw new IllegalStateException("stats were answered " + result);
    }
    return result.text();
  }

  /** The first number of that name: the daemon's own, before those of its sessions. */
  private static long count(String stats, String name) {
    Matcher matcher = Pattern.compile('"' + name + "\":([0-9]+)").matcher(stats);
    if (!matcher.find()) {
      throw new IllegalStateException("no " + name + " in " + stats);
    }
    return Long.parseLong(matcher.group(1));
  }
}

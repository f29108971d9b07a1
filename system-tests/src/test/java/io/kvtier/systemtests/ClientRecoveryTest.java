package io.kvtier.systemtests;

import static io.kvtier.systemtests.Patterns.empty;
import static io.kvtier.systemtests.Patterns.filled;
import static io.kvtier.systemtests.Patterns.keys;
import static io.kvtier.systemtests.Patterns.matches;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.client.Leases;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.PingResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The Java client while its daemon is absent, dies, hangs, and comes back. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class ClientRecoveryTest {
  private static final int BLOCK_BYTES = 65536;
  private static final String[] SMALL = {"host.bytes=32MiB", "host.slab_bytes=8MiB", "ssd.bytes=0"};

  private static final Duration TIMEOUT = Duration.ofSeconds(20);

  @TempDir private Path folder;

  private KvtierClient open(Duration timeout) {
    return KvtierClient.builder().socket(folder.resolve("k.sock")).timeout(timeout).build();
  }

  private static void awaitConnected(KvtierClient client) {
    for (int i = 0; i < 3000 && !client.isConnected(); i++) {
      TestDaemon.pause(10);
    }
    assertTrue(client.isConnected());
  }

  @Test
  void noDaemon_operations_areUnavailableAtOnce() {
    try (KvtierClient client = open(TIMEOUT);
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = client.namespace("later", BLOCK_BYTES, Map.of());
      PingResult ping = client.blocking().ping();
      assertEquals(Status.UNAVAILABLE, ping.status());
      assertTrue(ping.detail().contains("k.sock"), ping::detail);
      long start = System.nanoTime();
      for (int i = 0; i < 100; i++) {
        assertEquals(
            Status.UNAVAILABLE, client.blocking().lookup(namespace, keys(0, 3)).blocks().status(2));
      }
      BatchResult got = client.blocking().get(namespace, keys(0, 2), empty(arena, 2, BLOCK_BYTES));
      assertTrue(got.blocks().all(Status.UNAVAILABLE));
      assertTrue(
          namespace
              .put(keys(0, 2), filled(arena, 0, 2, BLOCK_BYTES))
              .join()
              .blocks()
              .all(Status.UNAVAILABLE));
      assertTrue(
          System.nanoTime() - start < TIMEOUT.toNanos(), "102 operations within one deadline");
      assertTrue(client.counters().isEmpty());
    }
  }

  @Test
  void noDaemon_connect_waitsForOneAndFails() {
    Duration timeout = Duration.ofMillis(300);
    try (KvtierClient client = open(timeout)) {
      long start = System.nanoTime();
      assertThrows(KvtierException.class, client::connect);
      assertTrue(System.nanoTime() - start >= timeout.toNanos(), "it failed at once");
    }
  }

  @Test
  void daemon_appearsLater_isUsedWithItsNamespaces() {
    try (KvtierClient client = open(TIMEOUT);
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = client.namespace("later", BLOCK_BYTES, Map.of("model", "x"));
      try (TestDaemon daemon = TestDaemon.start(folder, SMALL)) {
        assertEquals(daemon.pid(), client.connect().pid());
        assertTrue(
            client
                .blocking()
                .put(namespace, keys(0, 4), filled(arena, 0, 4, BLOCK_BYTES))
                .isComplete());
      }
    }
  }

  @Test
  void kill_leasesAndNewOperations_thenRestart() {
    try (KvtierClient client = open(TIMEOUT);
        Arena arena = Arena.ofShared()) {
      Namespace namespace;
      Leases leases;
      try (TestDaemon daemon = TestDaemon.start(folder, SMALL)) {
        assertEquals(daemon.pid(), client.connect().pid());
        namespace = client.namespace("killed", BLOCK_BYTES, Map.of());
        assertTrue(
            client
                .blocking()
                .put(namespace, keys(0, 8), filled(arena, 0, 8, BLOCK_BYTES))
                .isComplete());
        leases = client.blocking().acquire(namespace, keys(0, 8));
        assertFalse(leases.hasEnded());
        daemon.kill();
      }
      // Not DEADLINE: it does not wait for a daemon that is gone.
      Status status = client.blocking().lookup(namespace, keys(0, 8)).status();
      assertEquals(Status.UNAVAILABLE, status);
      assertTrue(leases.hasEnded());
      assertTrue(matches(leases.segment(3), 3), "the mapping lives as long as the leases");
      leases.close();
      try (TestDaemon daemon = TestDaemon.start(folder, SMALL)) {
        awaitConnected(client);
        assertEquals(daemon.pid(), client.connect().pid());
        BatchResult got =
            client.blocking().get(namespace, keys(0, 8), empty(arena, 8, BLOCK_BYTES));
        assertEquals(Status.OK, got.status(), got::detail);
        assertTrue(got.blocks().all(Status.MISS), got::toString);
        assertTrue(
            client
                .blocking()
                .put(namespace, keys(0, 8), filled(arena, 0, 8, BLOCK_BYTES))
                .isComplete());
      }
    }
  }

  /** Threads go on with everything while the daemon is killed again and again. */
  @Test
  void kill_underLoad_neverThrowsHangsOrLies() throws InterruptedException {
    AtomicBoolean stop = new AtomicBoolean();
    AtomicLong hits = new AtomicLong();
    AtomicLong longestNs = new AtomicLong();
    AtomicReference<Throwable> failure = new AtomicReference<>();
    try (KvtierClient client = open(TIMEOUT)) {
      Namespace namespace = client.namespace("load", BLOCK_BYTES, Map.of());
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        int number = t;
        Thread thread =
            new Thread(() -> {
              try (Arena arena = Arena.ofShared()) {
                while (!stop.get() && failure.get() == null) {
                  long start = System.nanoTime();
                  load(client, namespace, arena, number, hits);
                  longestNs.accumulateAndGet(System.nanoTime() - start, Math::max);
                }
              } catch (Throwable e) {
                failure.compareAndSet(null, e);
              }
            });
        threads.add(thread);
        thread.start();
      }
      for (int round = 0; round < 4; round++) {
        long before = hits.get();
        try (TestDaemon daemon = TestDaemon.start(folder, SMALL)) {
          for (int i = 0; i < 6000 && hits.get() < before + 200 && failure.get() == null; i++) {
            TestDaemon.pause(10);
          }
          daemon.kill();
        }
        assertTrue(
            hits.get() >= before + 200 || failure.get() != null, "hits with daemon " + round);
      }
      stop.set(true);
      for (Thread thread : threads) {
        thread.join(60_000);
        assertFalse(thread.isAlive(), "a thread hangs");
      }
    }
    if (failure.get() != null) {
      throw new AssertionError(failure.get());
    }
    assertTrue(longestNs.get() < 4 * TIMEOUT.toNanos(), "longest round " + longestNs.get() + " ns");
  }

  private static void load(
      KvtierClient client, Namespace namespace, Arena arena, int number, AtomicLong hits) {
    int from = number * 10;
    Keys keys = keys(from, 4);
    try (Arena round = Arena.ofShared()) {
      List<MemorySegment> blocks = filled(round, from, 4, BLOCK_BYTES);
      List<MemorySegment> read = empty(round, 4, BLOCK_BYTES);
      BatchResult got;
      if (number % 2 == 0) {
        BatchResult put = client.blocking().put(namespace, keys, blocks);
        assertEquals(4, put.blocks().count());
        got = client.blocking().get(namespace, keys, read);
      } else {
        BatchResult put = namespace.put(keys, blocks).join();
        assertEquals(4, put.blocks().count());
        got = namespace.get(keys, read).join();
      }
      for (int i = 0; i < 4; i++) {
        if (got.blocks().status(i) == Status.OK) {
          assertTrue(matches(read.get(i), from + i));
          hits.incrementAndGet();
        }
      }
    }
    assertTrue(arena.scope().isAlive());
  }

  @Test
  void hangingDaemon_operations_endWithTheirDeadline() {
    try (TestDaemon daemon = TestDaemon.start(folder, SMALL);
        KvtierClient client = open(TIMEOUT)) {
      Namespace namespace = client.namespace("hangs", BLOCK_BYTES, Map.of());
      assertEquals(Status.OK, client.blocking().ping().status());
      daemon.signal("STOP");
      try {
        Options brief = Options.DEFAULT.withTimeout(Duration.ofMillis(200));
        long start = System.nanoTime();
        assertEquals(
            Status.DEADLINE, client.blocking().lookup(namespace, keys(0, 1), brief).status());
        CompletableFuture<Leases> acquire = namespace.acquire(keys(0, 1), brief);
        try (Leases leases = acquire.join()) {
          assertEquals(Status.DEADLINE, leases.status());
        }
        assertTrue(
            System.nanoTime() - start < TIMEOUT.toNanos(), "the operation's deadline counts");
        assertFalse(client.counters().isEmpty(), "counters need no answer");
        assertTrue(client.sinceHeartbeat().orElseThrow().toMillis() > 100);
      } finally {
        daemon.signal("CONT");
      }
      assertEquals(Status.OK, client.blocking().ping().status());
    }
  }

  @Test
  void hangingDaemon_fullRing_isBusy() {
    try (TestDaemon daemon = TestDaemon.start(folder, SMALL);
        KvtierClient client =
            KvtierClient.builder()
                .socket(daemon.socket())
                .timeout(Duration.ofSeconds(10))
                .rings(1 << 18, 1 << 18)
                .build()) {
      Namespace namespace = client.namespace("full", BLOCK_BYTES, Map.of());
      Options brief = Options.DEFAULT.withTimeout(Duration.ofMillis(300));
      Keys many = keys(0, 2000);
      daemon.signal("STOP");
      List<Status> statuses = new ArrayList<>();
      try {
        List<CompletableFuture<Status>> futures = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
          futures.add(namespace.lookup(many, brief).thenApply(result -> result.status()));
        }
        futures.forEach(future -> statuses.add(future.join()));
      } finally {
        daemon.signal("CONT");
      }
      assertTrue(statuses.contains(Status.BUSY), statuses::toString);
      assertTrue(statuses.contains(Status.DEADLINE), statuses::toString);
      assertEquals(Status.OK, client.blocking().lookup(namespace, many).status());
    }
  }

  @Test
  void close_whileOperationsWait_answersThem() {
    try (TestDaemon daemon = TestDaemon.start(folder, SMALL)) {
      KvtierClient client = open(Duration.ofSeconds(30));
      Namespace namespace = client.namespace("closing", BLOCK_BYTES, Map.of());
      daemon.signal("STOP");
      CompletableFuture<Status> async =
          namespace.lookup(keys(0, 1)).thenApply(result -> result.status());
      CompletableFuture<Status> blocking =
          CompletableFuture.supplyAsync(
              () -> client.blocking().lookup(namespace, keys(0, 1)).status());
      TestDaemon.pause(200);
      client.close();
      assertEquals(Status.UNAVAILABLE, async.join());
      assertEquals(Status.UNAVAILABLE, blocking.join());
      assertEquals(Status.UNAVAILABLE, client.blocking().lookup(namespace, keys(0, 1)).status());
      daemon.signal("CONT");
    }
  }
}

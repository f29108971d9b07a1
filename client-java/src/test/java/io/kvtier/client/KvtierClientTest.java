package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolVersion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The client against a daemon that refuses, lies, goes silent or disappears. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class KvtierClientTest {
  private static final Keys KEY = Keys.of(new byte[] {1, 2, 3});

  @TempDir private Path folder;

  private Path socket() {
    return folder.resolve("fake.sock");
  }

  private KvtierClient open() {
    return KvtierClient.builder()
        .socket(socket())
        .timeout(Duration.ofMillis(500))
        .connectTimeout(Duration.ofMillis(500))
        .build();
  }

  private static void pause(long ms) throws InterruptedException {
    Thread.sleep(ms);
  }

  @ParameterizedTest
  @CsvSource({"1.5, upgrade kvtierd and restart it", "3.1, upgrade the client"})
  void connect_otherVersion_isRefusedWithBothVersionsAndTheCure(String version, String cure)
      throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(socket())) {
      String[] numbers = version.split("[.]", -1);
      daemon.version = Integer.parseInt(numbers[0]) << 16 | Integer.parseInt(numbers[1]);
      try (KvtierClient client = open()) {
        KvtierException refused = assertThrows(KvtierException.class, client::connect);
        assertEquals(Status.VERSION_MISMATCH, refused.status());
        assertEquals(Status.VERSION_MISMATCH, client.blocking().ping().status());
        assertEquals(
            "the daemon at "
                + socket()
                + " speaks protocol "
                + version
                + ", the client protocol "
                + ProtocolVersion.describe(Protocol.VERSION)
                + ": "
                + cure
                + ", so that both have the same version of kvtier",
            client.blocking().ping().detail());
      }
    }
  }

  @Test
  void connect_denied_saysSo() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(socket())) {
      daemon.welcome = Status.DENIED;
      try (KvtierClient client = open()) {
        KvtierException refused = assertThrows(KvtierException.class, client::connect);
        assertEquals(Status.DENIED, refused.status());
        assertTrue(client.blocking().ping().detail().contains("no guests today"));
      }
    }
  }

  @Test
  void namespace_withoutAName_isAskedForOne() {
    try (KvtierClient client = open()) {
      String words =
          String.valueOf(
              assertThrows(IllegalArgumentException.class, () -> client.namespace("", 64, Map.of()))
                  .getMessage());
      assertTrue(words.contains("has no name"), words);
    }
  }

  @Test
  void garbage_inTheCompletionRing_endsTheSessionAndNothingElse()
      throws IOException, InterruptedException {
    try (FakeDaemon daemon = new FakeDaemon(socket());
        KvtierClient client = open()) {
      Namespace namespace = client.namespace("n", 64, Map.of());
      List<FakeDaemon.Script> lies = new ArrayList<>();
      // A tail beyond the ring.
      lies.add((link, verb, id, count) -> {
        Words.putLongRelease(
            link.region.segment(), SessionRegionDescriptor.COMPLETION_TAIL_OFFSET, 1L << 40);
        link.wake();
        return true;
      });
      // A record of no length.
      lies.add((link, verb, id, count) -> {
        Words.putLongRelease(
            link.region.segment(), SessionRegionDescriptor.COMPLETION_TAIL_OFFSET, 64);
        link.wake();
        return true;
      });
      // An answer to a request that was never made.
      lies.add((link, verb, id, count) -> {
        link.complete(verb, id + 1, Status.OK, count);
        return true;
      });
      // Other blocks than were asked for.
      lies.add((link, verb, id, count) -> {
        link.complete(verb, id, Status.OK, count + 1);
        return true;
      });
      for (int i = 0; i < lies.size(); i++) {
        for (int tries = 0; tries < 500 && !client.isConnected(); tries++) {
          pause(10);
        }
        assertEquals(Status.OK, client.blocking().lookup(namespace, KEY).status(), "before " + i);
        FakeDaemon.Script lie = lies.get(i);
        daemon.script =
            (link, verb, id, count) -> {
              if (verb == Verb.LOOKUP) {
                daemon.script = (l, v, d, c) -> false;
                return lie.handle(link, verb, id, count);
              }
              return false;
            };
        LookupResult result = client.blocking().lookup(namespace, KEY);
        assertEquals(Status.UNAVAILABLE, result.status(), "lie " + i);
        assertTrue(result.detail().contains("protocol"), result::detail);
      }
      assertEquals(lies.size(), daemon.connections.get() - (client.isConnected() ? 1 : 0));
    }
  }

  @Test
  void hangUp_inFlight_isUnavailableAtOnceAndReconnects() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(socket());
        KvtierClient client =
            KvtierClient.builder().socket(socket()).timeout(Duration.ofMinutes(10)).build()) {
      Namespace namespace = client.namespace("n", 64, Map.of());
      daemon.script =
          (link, verb, id, count) -> {
            daemon.hangUp = verb == Verb.LOOKUP;
            return daemon.hangUp;
          };
      // Long before its deadline: the class has a minute for a test.
      assertEquals(Status.UNAVAILABLE, client.blocking().lookup(namespace, KEY).status());
      daemon.script = (link, verb, id, count) -> false;
      assertFalse(client.connect().version().isEmpty());
      assertEquals(Status.OK, namespace.lookup(KEY).join().status());
    }
  }

  @Test
  void lateAnswer_afterTheDeadline_isGivenBack() throws IOException, InterruptedException {
    try (FakeDaemon daemon = new FakeDaemon(socket());
        KvtierClient client = open()) {
      Namespace namespace = client.namespace("n", 64, Map.of());
      AtomicReference<Runnable> late = new AtomicReference<>(() -> {});
      daemon.script =
          (link, verb, id, count) -> {
            if (verb == Verb.ACQUIRE) {
              late.set(() -> link.complete(verb, id, Status.OK, count));
              return true;
            }
            if (verb == Verb.PING) {
              late.getAndSet(() -> {}).run();
            }
            return false;
          };
      Options brief = Options.DEFAULT.withTimeout(Duration.ofMillis(50));
      try (Leases leases = client.blocking().acquire(namespace, KEY, brief)) {
        assertEquals(Status.DEADLINE, leases.status());
        assertEquals(0, leases.granted());
      }
      // The cancellation, and then the release of what came too late.
      assertEquals(Status.OK, client.blocking().ping().status());
      for (int i = 0; i < 6000 && daemon.silentRequests.get() < 2; i++) {
        pause(5);
      }
      assertEquals(2, daemon.silentRequests.get());
    }
  }

  @Test
  void threads_blockingAndAsync_allAreAnswered() throws IOException, InterruptedException {
    try (FakeDaemon daemon = new FakeDaemon(socket());
        KvtierClient client =
            KvtierClient.builder().socket(socket()).timeout(Duration.ofSeconds(50)).build()) {
      assertEquals(1, daemon.connections.get());
      Namespace namespace = client.namespace("n", 64, Map.of());
      AtomicInteger answers = new AtomicInteger();
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 6; t++) {
        boolean async = t % 2 == 0;
        Thread thread =
            new Thread(() -> {
              for (int i = 0; i < 2000; i++) {
                LookupResult result =
                    async ? namespace.lookup(KEY).join() : client.blocking().lookup(namespace, KEY);
                if (result.status() == Status.OK && result.run() == 1) {
                  answers.incrementAndGet();
                }
              }
            });
        threads.add(thread);
        thread.start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(12_000, answers.get());
    }
  }

  @Test
  void futures_thatWaitInACallback_useTheBlockingClient() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(socket());
        KvtierClient client =
            KvtierClient.builder().socket(socket()).timeout(Duration.ofSeconds(50)).build()) {
      assertEquals(1, daemon.connections.get());
      Namespace namespace = client.namespace("n", 64, Map.of());
      CompletableFuture<Status> nested =
          namespace
              .lookup(KEY)
              .thenApply(first -> client.blocking().lookup(namespace, KEY).status());
      assertEquals(Status.OK, nested.join());
    }
  }

  @Test
  void putAsync_afterClose_isUnavailable() {
    KvtierClient client = open();
    Namespace namespace = client.namespace("n", 16, Map.of());
    client.close();
    BatchResult put =
        namespace.put(Keys.of(new byte[] {1}), List.of(MemorySegment.ofArray(new byte[16]))).join();
    assertEquals(Status.UNAVAILABLE, put.status());
  }

  @Test
  void builder_outOfRange_isMisuse() {
    KvtierClient.Builder builder = KvtierClient.builder();
    assertThrows(IllegalArgumentException.class, () -> builder.rings(1000, 1 << 20));
    assertThrows(IllegalArgumentException.class, () -> builder.timeout(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> builder.spin(Duration.ofSeconds(1)));
  }

  @Test
  void builder_emptySocket_isRefusedAtOnce() {
    assertThrows(IllegalArgumentException.class, () -> KvtierClient.builder().socket(Path.of("")));
  }
}

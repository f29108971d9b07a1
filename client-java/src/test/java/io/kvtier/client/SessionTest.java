package io.kvtier.client;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.AbstractList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A session by itself, and how one is begun. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class SessionTest {
  private static final long SECOND_NS = 1_000_000_000;
  private static final int BLOCK_BYTES = 4096;

  @TempDir private Path folder;

  private Config config() {
    return config(200);
  }

  private Config config(int connectTimeoutMs) {
    return new Config(
        folder.resolve("fake.sock"),
        DaemonUser.of(null),
        "test",
        50 * SECOND_NS,
        connectTimeoutMs,
        Protocol.RING_BYTES_MIN,
        Protocol.RING_BYTES_MIN,
        0);
  }

  private Session open() throws IOException {
    Config config = config();
    return new Session(
        Wires.connect(
            config.socket(),
            config.daemonUser(),
            config.name(),
            config.requestRingBytes(),
            config.completionRingBytes(),
            config.connectTimeoutMs()),
        batch -> {},
        0);
  }

  @Test
  void holdsLeases_daemonKilled_nobodyWaits_no() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      Session session = open();
      long end = System.nanoTime() + 3600 * SECOND_NS;
      assertTrue(session.holdsLeases(end));
      assertFalse(session.holdsLeases(System.nanoTime() - 1));
      daemon.hangUp = true;
      while (session.holdsLeases(end)) {
        assertFalse(Thread.interrupted(), "leases of nobody");
      }
      // It takes a look to know.
      assertTrue(session.isAlive() && session.seemsToHoldLeases(end));
      session.end("over");
      session.endUse();
    }
  }

  /**
   * A daemon that is killed while its blocks are copied, before anybody but the get could notice.
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void get_daemonKilledDuringTheCopy_stale(boolean async) throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      CompletableFuture<Void> mayWatch = new CompletableFuture<>();
      Receiver[] later = new Receiver[1];
      Connector connector =
          new Connector(config(), batch -> later[0].answered(batch), () -> mayWatch.join());
      Receiver receiver = new Receiver(connector);
      later[0] = receiver;
      Operations operations = new Operations(config(), connector, receiver);
      Transfers transfers = new Transfers(operations, Runnable::run);
      daemon.script =
          (link, verb, id, count) -> {
            if (verb == Verb.ACQUIRE) {
              link.grant(
                  verb, id, List.of(new FakeDaemon.Granted(Status.OK, 7, 0, BLOCK_BYTES, 0, 0)));
            }
            return verb == Verb.ACQUIRE;
          };
      connector.start();
      Session session = requireNonNull(connector.awaitAttempt(50 * SECOND_NS, true));
      Namespace namespace =
          new Namespace(operations, transfers, NamespaceProperties.of("n", BLOCK_BYTES, Map.of()));
      MemorySegment into = MemorySegment.ofArray(new byte[BLOCK_BYTES]);
      List<MemorySegment> destinations =
          new AbstractList<>() {
            private int asked;

            @Override
            public MemorySegment get(int index) {
              // The first look is for its size.
              if (asked++ > 0) {
                daemon.hangUp = true;
                while (!session.isCutOff()) {
                  Thread.onSpinWait();
                }
              }
              return into;
            }

            @Override
            public int size() {
              return 1;
            }
          };
      Keys keys = Keys.of(new byte[] {1});
      BatchResult result =
          async
              ? transfers.getAsync(namespace, keys, destinations, Options.DEFAULT).join()
              : transfers.get(namespace, keys, destinations, Options.DEFAULT);
      assertEquals(Status.STALE, result.blocks().status(0));
      // It takes a look to know.
      assertTrue(session.isAlive() && session.seemsToHoldLeases(Long.MAX_VALUE / 2));
      boolean _ = mayWatch.complete(null);
      connector.close();
      receiver.close();
    }
  }

  /** A daemon that is there on a machine that is busy. */
  @Test
  void firstCall_daemonTakesLongToWelcome_waitsWithinItsDeadline() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      daemon.holdsWelcome = true;
      Config config = config(50_000);
      Connector connector = new Connector(config, batch -> {}, () -> {});
      Operations operations = new Operations(config, connector, new Receiver(connector));
      Transfers transfers = new Transfers(operations, Runnable::run);
      BlockingClient blocking = new BlockingClient(operations, transfers);
      Namespace namespace =
          new Namespace(operations, transfers, NamespaceProperties.of("n", BLOCK_BYTES, Map.of()));
      Keys keys = Keys.of(new byte[] {1});
      connector.start();

      Options brief = Options.DEFAULT.withTimeout(Duration.ofMillis(20));
      LookupResult tooLate = blocking.lookup(namespace, keys, brief);
      assertEquals(Status.UNAVAILABLE, tooLate.status());
      assertTrue(tooLate.detail().contains("has not answered yet"), tooLate::detail);

      CompletableFuture<Status> looked = new CompletableFuture<>();
      Thread first =
          new Thread(() -> looked.complete(blocking.lookup(namespace, keys).status()), "first");
      first.start();
      while (first.getState() != Thread.State.TIMED_WAITING && first.isAlive()) {
        Thread.onSpinWait();
      }
      daemon.holdsWelcome = false;
      assertEquals(Status.OK, looked.join());
      connector.close();
    }
  }

  /** A slab that the daemon gives: a busy machine may need more than one connection timeout. */
  private static MemorySegment slab(Session session, boolean isWritable) throws IOException {
    for (int attempt = 1; ; attempt++) {
      try {
        return session.wires().slabs().get(0, isWritable);
      } catch (IOException e) {
        if (attempt == 50) {
          throw e;
        }
      }
    }
  }

  @Test
  void slab_answerToAnEarlierRequestComesLate_isNotTakenForThisOne() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      Session session = open();
      daemon.slabsToHold.set(2);
      for (int i = 0; i < 2; i++) {
        assertThrows(IOException.class, () -> session.wires().slabs().get(0, false));
      }
      MemorySegment slab = slab(session, true);
      assertEquals(FakeDaemon.SLAB_BYTES, slab.byteSize());
      assertFalse(slab.isReadOnly());
      assertTrue(slab(session, false).isReadOnly());
      session.end("over");
      session.endUse();
    }
  }

  /** As where this process may open no more files for a moment. */
  @Test
  void slab_answerCantBeTaken_nextOneCounts() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      Session session = open();
      daemon.slabsToSpoil.set(1);
      String words =
          String.valueOf(
              assertThrows(IOException.class, () -> session.wires().slabs().get(0, false))
                  .getMessage());
      assertTrue(words.contains("ulimit"), words);
      assertEquals(FakeDaemon.SLAB_BYTES, slab(session, false).byteSize());
      session.end("over");
      session.endUse();
    }
  }

  @Test
  void connect_namespaceRemovedMeanwhile_othersAreRegistered() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(config().socket())) {
      Connector connector = new Connector(config(), batch -> {}, () -> {});
      Operations operations = new Operations(config(), connector, new Receiver(connector));
      Transfers transfers = new Transfers(operations, Runnable::run);
      Namespace first =
          new Namespace(operations, transfers, NamespaceProperties.of("first", 4096, Map.of()));
      connector.add(first);
      connector.add(
          new Namespace(operations, transfers, NamespaceProperties.of("second", 4096, Map.of())));
      daemon.script =
          (link, verb, id, count) -> {
            connector.remove(first);
            return false;
          };
      connector.start();
      assertNotNull(connector.awaitAttempt(50 * SECOND_NS, true));
      assertEquals(2, daemon.asked(Verb.REGISTER).size());
      connector.close();
    }
  }
}

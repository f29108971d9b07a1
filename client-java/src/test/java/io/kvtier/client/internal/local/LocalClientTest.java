package io.kvtier.client.internal.local;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockingClient;
import io.kvtier.client.Keys;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.internal.session.Connecting;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.DaemonUser;
import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.client.internal.session.Receiver;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.NamespaceProperties;
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

/** The parts of a client of this machine against a daemon that hangs or dies. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class LocalClientTest {
  private static final long SECOND_NS = 1_000_000_000;
  private static final int BLOCK_BYTES = 4096;

  @TempDir private Path folder;

  private Connecting to() {
    return to(200);
  }

  private Connecting to(int connectTimeoutMs) {
    return new Connecting(
        folder.resolve("fake.sock"),
        DaemonUser.of(null),
        "test",
        connectTimeoutMs,
        Protocol.RING_BYTES_MIN,
        Protocol.RING_BYTES_MIN);
  }

  private static Operations operations(Connector connector, Receiver receiver) {
    return new Operations(new Submitter(50 * SECOND_NS, connector, receiver));
  }

  private static Transfers transfers(Operations operations) {
    return new Transfers(operations, new Annotations(operations.submitter()), Runnable::run);
  }

  private static Registrar registrar(Operations operations, String name) {
    return new Registrar(
        operations.submitter(), NamespaceProperties.of(name, BLOCK_BYTES, Map.of()));
  }

  /**
   * A daemon that is killed while its blocks are copied, before anybody but the get could notice.
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void get_daemonKilledDuringTheCopy_stale(boolean async) throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      CompletableFuture<Void> mayWatch = new CompletableFuture<>();
      Receiver[] later = new Receiver[1];
      Connector connector =
          new Connector(to(), 0, batch -> later[0].answered(batch), () -> mayWatch.join());
      Receiver receiver = new Receiver(connector);
      later[0] = receiver;
      Operations operations = operations(connector, receiver);
      Transfers transfers = transfers(operations);
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
      Registrar namespace = registrar(operations, "n");
      MemorySegment into = MemorySegment.ofArray(new byte[BLOCK_BYTES]);
      List<MemorySegment> destinations =
          new AbstractList<>() {
            private int asked;

            @Override
            public MemorySegment get(int index) {
              // The first look is for its size.
              if (asked++ > 0) {
                daemon.hangUp = true;
                while (!session.lifetime().isCutOff()) {
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
      assertTrue(session.isAlive() && session.lifetime().seemsToHoldLeases(Long.MAX_VALUE / 2));
      boolean _ = mayWatch.complete(null);
      connector.close();
      receiver.close();
    }
  }

  /** A daemon that is there on a machine that is busy. */
  @Test
  void firstCall_daemonTakesLongToWelcome_waitsWithinItsDeadline() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      daemon.holdsWelcome = true;
      Connector connector = new Connector(to(50_000), 0, batch -> {}, () -> {});
      Operations operations = operations(connector, new Receiver(connector));
      Transfers transfers = transfers(operations);
      BlockingClient blocking =
          new LocalBlockingClient(operations, transfers, new Annotations(operations.submitter()));
      Namespace namespace =
          new LocalNamespace(
              operations, transfers, new Regions(operations), registrar(operations, "n"));
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

  @Test
  void connect_namespaceRemovedMeanwhile_othersAreRegistered() throws IOException {
    try (FakeDaemon daemon = new FakeDaemon(to().socket())) {
      Connector connector = new Connector(to(), 0, batch -> {}, () -> {});
      Operations operations = operations(connector, new Receiver(connector));
      Registrar first = registrar(operations, "first");
      connector.add(first);
      connector.add(registrar(operations, "second"));
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

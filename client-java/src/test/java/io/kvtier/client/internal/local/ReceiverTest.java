package io.kvtier.client.internal.local;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.Keys;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.internal.session.Batch;
import io.kvtier.client.internal.session.Connecting;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.DaemonUser;
import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.client.internal.session.Receiver;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The thread that answers asynchronous operations. */
final class ReceiverTest {
  private static final Keys KEY = Keys.of(new byte[] {1, 2, 3});
  private static final long CALL_NS = 50_000_000_000L;

  @TempDir private Path folder;

  private Receiver withoutDaemon() {
    Connecting to =
        new Connecting(folder.resolve("none.sock"), DaemonUser.of(null), "test", 1, 1, 1);
    return new Receiver(new Connector(to, 0, batch -> {}, () -> {}));
  }

  private static void answer(Receiver receiver, Consumer<Batch> listener) {
    receiver.answered(
        new Batch(0, 1) {
          @Override
          protected boolean isAsync() {
            return true;
          }

          @Override
          protected void tellDone() {
            listener.accept(this);
          }
        });
  }

  @Test
  void answered_afterClose_isToldAllTheSame() throws InterruptedException {
    Receiver receiver = withoutDaemon();
    CountDownLatch first = new CountDownLatch(1);
    answer(receiver, batch -> first.countDown());
    assertTrue(first.await(60, TimeUnit.SECONDS));
    receiver.close();
    CountDownLatch late = new CountDownLatch(2);
    answer(receiver, batch -> late.countDown());
    answer(receiver, batch -> late.countDown());
    assertTrue(late.await(60, TimeUnit.SECONDS), "a future that would never be done");
  }

  @Test
  void answered_afterAnErrorOfAListener_isToldAllTheSame() throws InterruptedException {
    Receiver receiver = withoutDaemon();
    answer(
        receiver,
        batch -> {
          throw new OutOfMemoryError("thrown by the test");
        });
    CountDownLatch next = new CountDownLatch(1);
    answer(receiver, batch -> next.countDown());
    assertTrue(next.await(60, TimeUnit.SECONDS), "a future that would never be done");
    receiver.close();
  }

  /** What is in flight then is answered without a further operation. */
  @Test
  void run_errorWhileItWaits_anotherThreadAnswers() throws Exception {
    Path socket = folder.resolve("fake.sock");
    Connecting to =
        new Connecting(
            socket,
            DaemonUser.of(null),
            "test",
            200,
            Protocol.RING_BYTES_MIN,
            Protocol.RING_BYTES_MIN);
    try (FakeDaemon daemon = new FakeDaemon(socket)) {
      AtomicBoolean failed = new AtomicBoolean();
      Receiver[] later = new Receiver[1];
      Connector connector =
          new Connector(
              to,
              0,
              batch -> {
                if (failed.compareAndSet(false, true)) {
                  throw new OutOfMemoryError("thrown by the test");
                }
                later[0].answered(batch);
              },
              () -> {});
      Receiver receiver = new Receiver(connector);
      later[0] = receiver;
      Operations operations = new Operations(new Submitter(CALL_NS, connector, receiver));
      Annotations annotations = new Annotations(operations.submitter());
      Transfers transfers = new Transfers(operations, annotations, Runnable::run);
      AtomicInteger lookups = new AtomicInteger();
      daemon.script =
          (link, verb, id, count) -> verb == Verb.LOOKUP && lookups.getAndIncrement() == 0;
      connector.start();
      assertNotNull(connector.awaitAttempt(CALL_NS, true));
      Namespace namespace =
          new LocalNamespace(
              operations,
              transfers,
              new Regions(operations),
              new Registrar(operations.submitter(), NamespaceProperties.of("n", 64, Map.of())));

      CompletableFuture<LookupResult> unanswered = namespace.lookup(KEY);
      CompletableFuture<LookupResult> _ = namespace.lookup(KEY);
      assertEquals(Status.UNAVAILABLE, unanswered.get(40, TimeUnit.SECONDS).status());
      connector.close();
      receiver.close();
    }
  }
}

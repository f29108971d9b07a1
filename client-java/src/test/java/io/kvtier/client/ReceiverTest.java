package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The thread that answers asynchronous operations. */
final class ReceiverTest {
  @TempDir private Path folder;

  private static void answer(Receiver receiver, CountDownLatch told) {
    Batch batch = new Batch(null, 0, 1, answered -> told.countDown());
    batch.calls[0] = Call.local(Verb.PING, 0, Status.UNAVAILABLE, "closed");
    receiver.answered(batch);
  }

  @Test
  void answered_afterClose_isToldAllTheSame() throws InterruptedException {
    Config config = new Config(folder.resolve("none.sock"), "test", 1, 1, 1, 1, 0);
    Receiver receiver = new Receiver(new Connector(config, batch -> {}, () -> {}));
    CountDownLatch first = new CountDownLatch(1);
    answer(receiver, first);
    assertTrue(first.await(60, TimeUnit.SECONDS));
    receiver.close();
    CountDownLatch late = new CountDownLatch(2);
    answer(receiver, late);
    answer(receiver, late);
    assertTrue(late.await(60, TimeUnit.SECONDS), "a future that would never be done");
  }
}

package io.kvtier.tiers.object.janitor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.object.FaultProxy;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.S3ObjectStore;
import io.kvtier.tiers.object.S3Options;
import io.kvtier.tiers.object.S3Server;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

final class S3JanitorTest extends JanitorContract {
  private static final AtomicInteger PREFIXES = new AtomicInteger();
  private static S3Server server;
  private static FaultProxy proxy;

  private final String prefix = "janitor" + PREFIXES.incrementAndGet();

  @BeforeAll
  static void start() throws Exception {
    server = S3Server.start();
    proxy = new FaultProxy(server.port());
  }

  @AfterAll
  static void stop() throws Exception {
    proxy.close();
    server.close();
  }

  @Override
  ObjectStore open() {
    return new S3ObjectStore(
        new S3Options(
            new S3Options.Bucket(
                S3Server.endpoint(proxy.port()),
                "us-east-1",
                S3Server.BUCKET,
                prefix,
                S3Options.Addressing.PATH),
            "",
            S3Options.Writing.PLAIN,
            S3Options.ChecksumMode.WHEN_REQUIRED,
            S3Options.Connections.of(16)),
        S3Server.credentials());
  }

  /** The network fails from the look that deletes on, and then is well again. */
  @Test
  void gc_networkResetsInTheMiddle_failsAndTheNextRunEndsTheWork() throws Exception {
    putHourly(0, 40);
    AtomicInteger lists = new AtomicInteger();
    store.meddle((verb, name) -> {
      if (verb.equals("list") && name.isEmpty() && lists.incrementAndGet() == 2) {
        proxy.set(new FaultProxy.Fault.Reset(10));
      }
      return null;
    });
    JanitorReport report;
    try {
      report = gc(20);
    } finally {
      proxy.set(FaultProxy.NONE);
    }
    assertEquals(JanitorReport.State.FAILED, report.state(), report.text());
    assertEquals(numbers(0, 40), present(0, 40));
    clock.passMs(HOUR_MS);
    report = gc(20);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(numbers(22, 40), present(0, 40));
  }

  @Test
  void cancel_storeHangs_endsTheCall() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    store.meddle((_, _) -> {
      asked.countDown();
      return null;
    });
    proxy.set(new FaultProxy.Fault.Stall(0));
    ObjectJanitor.Options patient =
        new ObjectJanitor.Options(
            new ObjectJanitor.Cap(0, 90, 0),
            new ObjectJanitor.Pace(10, HOUR_MS, 2 * HOUR_MS, HOUR_MS),
            new ObjectJanitor.KnownUses(10, HOUR_MS),
            HOUR_MS);
    try (ObjectJanitor janitor =
        new ObjectJanitor(store, "node-a", patient, null, _ -> {}, JanitorClock.SYSTEM)) {
      assertTrue(janitor.start(new JanitorTask.Du()));
      assertTrue(asked.await(60, TimeUnit.SECONDS));
      janitor.cancel();
      JanitorReport report =
          assertTimeoutPreemptively(Duration.ofSeconds(60), () -> janitor.await());
      assertEquals(JanitorReport.State.CANCELLED, report.state(), report.text());
    } finally {
      proxy.set(FaultProxy.NONE);
    }
  }
}

package io.kvtier.daemon.tracing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.kvtier.daemon.index.report.RequestTold;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Inbox;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class RequestTellerTest {
  private static RequestTold.Span span(int number) {
    return new RequestTold.Span(
        new RequestTold.SpanIds(1, 2, 1 + number, 0),
        "kvtier.ping",
        true,
        new RequestTold.SpanWork("", 0, 0, 0, 0),
        Status.OK,
        number,
        number + 1);
  }

  @Test
  void close_collectorTakesNothing_triesNoBatchAgainAndCountsTheRest() throws Exception {
    int spans = 2048;
    Inbox<RequestTold> told = new Inbox<>(2 * spans);
    for (int i = 0; i < spans; i++) {
      assertTrue(told.offer(span(i)));
    }
    AtomicInteger asked = new AtomicInteger();
    AtomicInteger lost = new AtomicInteger();
    CountDownLatch isAsked = new CountDownLatch(1);
    HttpServer collector =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/",
        exchange -> {
          asked.incrementAndGet();
          isAsked.countDown();
          while (!told.hasEnded()) {
            Thread.onSpinWait();
          }
          exchange.sendResponseHeaders(503, -1);
          exchange.close();
        });
    collector.start();
    try {
      String endpoint = "http://127.0.0.1:" + collector.getAddress().getPort() + "/";
      RequestTeller teller =
          new RequestTeller(
              told,
              new SpanSender(endpoint, "0", "", lost::addAndGet),
              broken -> {
                throw new AssertionError(broken);
              });
      assertTrue(isAsked.await(60, TimeUnit.SECONDS));
      teller.close();
      assertEquals(1, asked.get());
      assertEquals(spans, lost.get());
    } finally {
      collector.stop(0);
    }
  }
}

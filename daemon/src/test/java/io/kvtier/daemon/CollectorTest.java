package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

final class CollectorTest {
  @Test
  void eachPeriod_beginsATurn() throws Exception {
    CountDownLatch turns = new CountDownLatch(3);
    try (var _ =
        new Collector(
            turns::countDown,
            TimeUnit.MILLISECONDS.toNanos(1),
            defect -> {
              throw new AssertionError("a defect", defect);
            })) {
      assertTrue(turns.await(60, TimeUnit.SECONDS), "three turns");
    }
  }

  @Test
  void turnHasADefect_isTold() throws Exception {
    CompletableFuture<Throwable> defect = new CompletableFuture<>();
    try (var _ =
        new Collector(
            () -> {
              throw new IllegalStateException("planted");
            },
            TimeUnit.MILLISECONDS.toNanos(1),
            defect::complete)) {
      assertEquals("planted", defect.get(60, TimeUnit.SECONDS).getMessage());
    }
  }
}

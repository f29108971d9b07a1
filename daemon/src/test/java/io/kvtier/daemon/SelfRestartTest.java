package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** When the daemon starts itself anew; that it does is {@code system-tests/test_device.py}'s. */
class SelfRestartTest {
  private static final Instant NOW = Instant.ofEpochSecond(1_000_000);

  private static SelfRestart after(String mark) {
    return new SelfRestart(Map.of(SelfRestart.VARIABLE, mark), "");
  }

  @Test
  void refusal_firstError_none() {
    assertNull(new SelfRestart(Map.of(), "").refusal(NOW));
    assertNull(after("nonsense of somebody's").refusal(NOW));
    assertNull(after("").refusal(NOW));
  }

  @Test
  void refusal_againWithinTheTime_saysWhenItWas() {
    long last = NOW.minus(SelfRestart.APART).getEpochSecond();
    assertNull(after(last + " GPU 0 failed").refusal(NOW));
    String refusal = after(last + 1 + " GPU 0 failed").refusal(NOW);
    assertNotNull(refusal);
    assertTrue(refusal.contains(Instant.ofEpochSecond(last + 1).toString()), refusal);
  }

  @Test
  void refusal_forbidden_saysWhy() {
    assertEquals("no", new SelfRestart(Map.of(), "no").refusal(NOW));
  }

  @Test
  void watch_cause_stopsTheDaemonOnce() throws InterruptedException {
    SelfRestart restart = new SelfRestart(Map.of(), "");
    AtomicReference<String> cause = new AtomicReference<>();
    CountDownLatch stopped = new CountDownLatch(1);
    restart.watch(cause::get, stopped::countDown);
    assertFalse(stopped.await(1500, TimeUnit.MILLISECONDS), "stopped without a cause");
    assertFalse(restart.isDue());
    cause.set("GPU 0 failed");
    assertTrue(stopped.await(30, TimeUnit.SECONDS));
    assertTrue(restart.isDue());
  }

  @Test
  void watch_forbidden_staysAsItIs() throws InterruptedException {
    SelfRestart restart = new SelfRestart(Map.of(), "gpu.restart is false");
    CountDownLatch stopped = new CountDownLatch(1);
    restart.watch(() -> "GPU 0 failed", stopped::countDown);
    assertFalse(stopped.await(1500, TimeUnit.MILLISECONDS));
    assertFalse(restart.isDue());
  }
}

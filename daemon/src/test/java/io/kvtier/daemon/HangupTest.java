package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Real signals to this process, which without a handler would end it. */
class HangupTest {
  private static final int HANG_S = 20;

  private static void hangUp() throws IOException, InterruptedException {
    long self = ProcessHandle.current().pid();
    assertEquals(0, new ProcessBuilder("kill", "-HUP", Long.toString(self)).start().waitFor());
  }

  /** Until one was heard that nobody was there for. */
  private static void await(Hangup hangup) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_S);
    while (!hangup.isMissed()) {
      assertTrue(System.nanoTime() < end);
      Thread.sleep(1);
    }
  }

  @Test
  void each_runsAtEachHangup() throws Exception {
    Semaphore runs = new Semaphore(0);
    Hangup.hear().each(runs::release);
    for (int i = 0; i < 2; i++) {
      hangUp();
      assertTrue(runs.tryAcquire(HANG_S, TimeUnit.SECONDS));
    }
  }

  @Test
  void each_afterAHangup_runsAtOnce() throws Exception {
    Hangup hangup = Hangup.hear();
    hangUp();
    // Which thread of the JVM's hears it, and when, is its own affair.
    await(hangup);
    Semaphore runs = new Semaphore(0);
    hangup.each(runs::release);
    assertTrue(runs.tryAcquire(HANG_S, TimeUnit.SECONDS));
  }

  @Test
  void serve_hangupDuringTheStart_isReadBehindReady() throws Exception {
    Hangup hangup = Hangup.hear();
    hangUp();
    await(hangup);
    BlockingQueue<String> told = new LinkedBlockingQueue<>();
    ServiceManager manager = new ServiceManager(told::add, 0);
    Kvtierd.serve(manager, hangup, "ready on k.sock", manager::reloading);
    assertEquals("READY=1\nSTATUS=ready on k.sock", told.poll(HANG_S, TimeUnit.SECONDS));
    String next = String.valueOf(told.poll(HANG_S, TimeUnit.SECONDS));
    assertTrue(next.startsWith("RELOADING=1"), next);
  }
}

package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

final class ServiceManagerTest {
  private final List<String> told = new ArrayList<>();
  private final ServiceManager manager = new ServiceManager(told::add, 0);

  @Test
  void states_areWhatTheManualSays() {
    manager.ready("ready on\n/run/kvtier.sock");
    manager.reloading();
    manager.reloaded();
    manager.stopping();
    assertEquals("READY=1\nSTATUS=ready on /run/kvtier.sock", told.get(0));
    assertTrue(told.get(1).matches("RELOADING=1\nMONOTONIC_USEC=[0-9]+"), told.get(1));
    assertEquals("READY=1", told.get(2));
    assertTrue(told.get(3).startsWith("STOPPING=1\n"), told.get(3));
  }

  /** It would take that for the end of the start. */
  @Test
  void reload_beforeReady_isNotTold() {
    manager.reloading();
    manager.reloaded();
    assertEquals(List.of(), told);
    manager.ready("ready");
    manager.reloading();
    manager.reloaded();
    assertEquals(3, told.size(), told.toString());
  }

  @Test
  void look_progress_isASignOfLife() {
    AtomicLong passes = new AtomicLong(7);
    ServiceManager.Watchdog watchdog = manager.new Watchdog(passes::get);
    passes.incrementAndGet();
    watchdog.look();
    assertEquals(List.of("WATCHDOG=1"), told);
  }

  @Test
  void look_noProgress_isSilence() {
    AtomicLong passes = new AtomicLong(7);
    ServiceManager.Watchdog watchdog = manager.new Watchdog(passes::get);
    watchdog.look();
    assertEquals(List.of(), told);
    passes.incrementAndGet();
    watchdog.look();
    watchdog.look();
    assertEquals(List.of("WATCHDOG=1"), told);
  }

  @Test
  void watch_progress_isToldAgainAndAgain() throws InterruptedException {
    BlockingQueue<String> signs = new LinkedBlockingQueue<>();
    AtomicLong passes = new AtomicLong();
    new ServiceManager(signs::add, 3000).watch(passes::incrementAndGet);
    assertEquals("WATCHDOG=1", signs.take());
    assertEquals("WATCHDOG=1", signs.take());
  }

  @Test
  void tell_managerGone_isBorne() {
    new ServiceManager(
            _ -> {
              throw new IOException("nobody there");
            },
            0)
        .ready("ready");
  }

  @Test
  void of_noManager_saysNothing() {
    ServiceManager.of(Map.of(), 1).ready("ready");
    ServiceManager.of(Map.of("NOTIFY_SOCKET", "vsock:2:1"), 1).ready("ready");
  }
}

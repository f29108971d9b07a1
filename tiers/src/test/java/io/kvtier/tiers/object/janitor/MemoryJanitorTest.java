package io.kvtier.tiers.object.janitor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.object.ClockedStore;
import io.kvtier.tiers.object.MemoryStore;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.StoreResult;
import java.time.Duration;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The contract on a store in memory, and what needs one that fails at the right moment. */
final class MemoryJanitorTest extends JanitorContract {
  @Override
  ObjectStore open() {
    // The tests with the store's own times need one that has them.
    return new ClockedStore(new MemoryStore(), System::currentTimeMillis);
  }

  /**
   * Three nodes that do anything at any moment, the next one also between the calls of one. It
   * would fail where a number that was removed could be written again and be believed.
   */
  @Test
  void lease_anythingAtAnyMoment_neverTwoHoldIt() throws Exception {
    for (long seed = 0; seed < 300; seed++) {
      SimulatedClock time = new SimulatedClock();
      ClockedStore shared = new ClockedStore(new MemoryStore(), time::ms);
      Random random = new Random(seed);
      ObjectLease[] leases = new ObjectLease[3];
      boolean[] busy = new boolean[leases.length];
      for (int i = 0; i < leases.length; i++) {
        leases[i] = new ObjectLease("node-" + i, 10_000, time);
      }
      JanitorCalls calls = calls(shared, time);
      long problem = seed;
      shared.meddle((_, _) -> {
        if (random.nextInt(8) == 0) {
          act(leases, busy, calls, random, time);
        }
        return null;
      });
      for (int step = 0; step < 100; step++) {
        act(leases, busy, calls, random, time);
        int held = 0;
        for (ObjectLease lease : leases) {
          held += lease.isHeld() ? 1 : 0;
        }
        assertTrue(held <= 1, () -> "two hold the lease: seed " + problem);
      }
    }
  }

  private static void act(
      ObjectLease[] leases,
      boolean[] busy,
      JanitorCalls calls,
      Random random,
      SimulatedClock time) {
    int who = random.nextInt(leases.length);
    time.passMs(random.nextInt(10) == 0 ? 13_000 : random.nextInt(500));
    if (busy[who]) {
      return;
    }
    busy[who] = true;
    try {
      switch (random.nextInt(4)) {
        case 0 -> leases[who].release(calls);
        case 1 -> {
          if (!leases[who].isHeld()) {
            boolean _ = leases[who].acquire(calls);
          }
        }
        default -> {
          boolean _ = leases[who].keep(calls);
        }
      }
    } catch (RunEnd e) {
      throw new AssertionError(e);
    } finally {
      busy[who] = false;
    }
  }

  @Test
  void acquire_answerOfTheFirstTryLost_isHeld() throws Exception {
    AtomicInteger puts = new AtomicInteger();
    store.loseAnswers(verb -> verb.equals("put") && puts.incrementAndGet() == 1);
    ObjectLease lease = new ObjectLease("node", 60_000, clock);
    assertTrue(lease.acquire(calls(store, clock)));
    assertEquals(2, puts.get());
    assertFalse(new ObjectLease("other", 60_000, clock).acquire(calls(store, clock)));
  }

  @Test
  void acquire_allAnswersOfAPutLost_isOnesOwnTheNextTime() throws Exception {
    store.loseAnswers(verb -> verb.equals("put"));
    ObjectLease lease = new ObjectLease("node", HOUR_MS, clock);
    assertThrows(RunEnd.class, () -> lease.acquire(calls(store, clock)));
    assertFalse(lease.isHeld());
    store.loseAnswers(_ -> false);
    assertFalse(new ObjectLease("other", HOUR_MS, clock).acquire(calls(store, clock)));
    assertTrue(lease.acquire(calls(store, clock)), "the term that it did not hear of is its own");
  }

  @Test
  void gc_storeFailsInTheMiddle_failsAndTheNextRunEndsTheWork() throws Exception {
    putHourly(0, 2500);
    AtomicInteger deletes = new AtomicInteger();
    store.meddle((verb, _) ->
        verb.equals("delete") && deletes.incrementAndGet() > 2
            ? new StoreResult.Unavailable("the store is down")
            : null);
    JanitorReport report = gc(1000);
    assertEquals(JanitorReport.State.FAILED, report.state());
    assertTrue(report.reason().contains("the store is down"), report.reason());
    store.meddle((_, _) -> null);
    clock.passMs(HOUR_MS);
    report = gc(1000);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    Set<Integer> left = present(0, 2500);
    assertEquals(900, left.size());
    // Ages are told apart to a 64th of them, which are up to 19 hours here.
    assertTrue(left.containsAll(numbers(1620, 2500)), left.toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"throttled", "unavailable", "expired"})
  void gc_storeStumbles_goesOn(String how) throws Exception {
    putHourly(0, 20);
    StoreResult stumble =
        switch (how) {
          case "throttled" -> new StoreResult.Throttled(TimeUnit.SECONDS.toNanos(1));
          case "unavailable" -> new StoreResult.Unavailable("reset");
          default -> new StoreResult.Expired();
        };
    AtomicInteger asked = new AtomicInteger();
    store.meddle((_, _) -> asked.incrementAndGet() % 3 == 0 ? stumble : null);
    JanitorReport report = gc(10);
    store.meddle((_, _) -> null);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(numbers(11, 20), present(0, 20));
  }

  @Test
  void gc_denied_failsAtOnceAndSaysWhy() throws Exception {
    store.meddle(
        (verb, _) -> verb.equals("list") ? new StoreResult.Denied("no right to list") : null);
    JanitorReport report = gc(10);
    assertEquals(JanitorReport.State.FAILED, report.state());
    assertTrue(report.reason().contains("no right to list"), report.reason());
    assertEquals(1, report.effort().calls());
  }

  @Test
  void gc_uploadsCannotBeListed_collectsAllTheSame() throws Exception {
    putHourly(0, 20);
    store.meddle((verb, _) ->
        verb.equals("removeUnfinished") ? new StoreResult.Denied("not implemented") : null);
    JanitorReport report = gc(10);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertTrue(report.reason().contains("not implemented"), report.reason());
    assertEquals(numbers(11, 20), present(0, 20));
  }

  @Test
  void gc_writtenAnewWhileItRuns_isKept() throws Exception {
    putHourly(0, 20);
    AtomicInteger lists = new AtomicInteger();
    store.meddle((verb, prefix) -> {
      // The second look at the blocks is that which deletes.
      if (verb.equals("list") && prefix.isEmpty() && lists.incrementAndGet() == 2) {
        put(blocks.name(0), blocks.object(0));
      }
      return null;
    });
    JanitorReport report = gc(10);
    store.meddle((_, _) -> null);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    Set<Integer> left = present(0, 20);
    assertTrue(left.contains(0), left + " has what was written again");
    assertTrue(left.size() <= 10, left.toString());
  }

  @Test
  void gc_leaseTakenByAnother_stopsDeleting() throws Exception {
    putHourly(0, 20);
    AtomicInteger lists = new AtomicInteger();
    store.meddle((verb, prefix) -> {
      if (verb.equals("list") && prefix.isEmpty() && lists.incrementAndGet() == 2) {
        clock.passMs(HOUR_MS); // This node was stopped for so long.
        try {
          assertTrue(new ObjectLease("node-b", HOUR_MS, clock).acquire(calls(store, clock)));
        } catch (RunEnd e) {
          throw new AssertionError(e);
        }
      }
      return null;
    });
    JanitorReport report = gc(10);
    assertEquals(JanitorReport.State.FAILED, report.state());
    assertTrue(report.reason().contains("lease"), report.reason());
    assertEquals(numbers(0, 20), present(0, 20));
  }

  @Test
  void cancel_inTheMiddle_endsAndGivesTheLeaseBack() throws Exception {
    putHourly(0, 2500);
    CountDownLatch atIt = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    store.meddle((verb, _) -> {
      if (verb.equals("delete")) {
        atIt.countDown();
        awaitQuietly(goOn);
      }
      return null;
    });
    long capBytes = 1000L * OBJECT_BYTES;
    try (ObjectJanitor janitor =
        new ObjectJanitor(store, "node-a", options(capBytes), null, _ -> {}, clock)) {
      assertTrue(janitor.start(new JanitorTask.Gc()));
      awaitQuietly(atIt);
      assertFalse(janitor.start(new JanitorTask.Du()), "one at a time");
      assertEquals(JanitorReport.State.RUNNING, janitor.report().state());
      janitor.cancel();
      goOn.countDown();
      JanitorReport report = janitor.await();
      assertEquals(JanitorReport.State.CANCELLED, report.state(), report.text());
    }
    store.meddle((_, _) -> null);
    assertTrue(present(0, 2500).size() > 1000);
    assertEquals(JanitorReport.State.DONE, gc(1000).state(), "nobody waits for the lease");
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      assertTrue(latch.await(60, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void start_afterATaskThatRanOutOfMemory_runs() throws Exception {
    putHourly(0, 1);
    try (ObjectJanitor janitor =
        new ObjectJanitor(store, "node-a", options(0), null, _ -> {}, clock)) {
      store.meddle((_, _) -> {
        throw new OutOfMemoryError("planted");
      });
      assertTrue(janitor.start(new JanitorTask.Du()));
      JanitorReport report = awaitSoon(janitor);
      assertEquals(JanitorReport.State.FAILED, report.state());
      assertTrue(report.reason().contains("planted"), report.reason());
      store.meddle((_, _) -> null);
      assertTrue(janitor.start(new JanitorTask.Du()), "the one before has ended");
      assertEquals(JanitorReport.State.DONE, awaitSoon(janitor).state());
    }
  }

  @Test
  void start_afterATaskThatCouldNotGiveTheLeaseBack_runs() throws Exception {
    putHourly(0, 20);
    AtomicInteger leases = new AtomicInteger();
    try (ObjectJanitor janitor =
        new ObjectJanitor(store, "node-a", options(10L * OBJECT_BYTES), null, _ -> {}, clock)) {
      store.meddle((verb, name) -> {
        // The first is that which takes it.
        if (verb.equals("put")
            && name.startsWith(ReservedNames.LEASES)
            && leases.incrementAndGet() > 1) {
          throw new IllegalStateException("planted");
        }
        return null;
      });
      assertTrue(janitor.start(new JanitorTask.Gc()));
      JanitorReport report = awaitSoon(janitor);
      assertEquals(JanitorReport.State.DONE, report.state(), report.text());
      assertEquals(2, leases.get());
      store.meddle((_, _) -> null);
      assertTrue(janitor.start(new JanitorTask.Du()), "the one before has ended");
      assertEquals(JanitorReport.State.DONE, awaitSoon(janitor).state());
    }
  }

  private static JanitorReport awaitSoon(ObjectJanitor janitor) {
    return assertTimeoutPreemptively(Duration.ofSeconds(30), janitor::await);
  }

  @Test
  void run_longerThanTold_endsInTime() throws Exception {
    putHourly(0, 2500);
    ObjectJanitor.Options short10s =
        new ObjectJanitor.Options(
            new ObjectJanitor.Cap(OBJECT_BYTES, 90, 0),
            new ObjectJanitor.Pace(1, 30_000, 10_000, 60_000),
            new ObjectJanitor.KnownUses(1000, HOUR_MS),
            HOUR_MS);
    long beginMs = clock.ms();
    JanitorReport report = run(short10s, new JanitorTask.Verify(1, false));
    assertEquals(JanitorReport.State.OUT_OF_TIME, report.state(), report.text());
    assertTrue(clock.ms() - beginMs <= 10_000, "it took " + (clock.ms() - beginMs));
    assertEquals(
        9, report.effort().calls(), "one a second, and the last tenth is for the farewell");
  }

  @Test
  void start_afterClose_isRefused() {
    ObjectJanitor janitor = new ObjectJanitor(store, "node-a", options(0), null, _ -> {}, clock);
    assertEquals(JanitorReport.State.IDLE, janitor.report().state());
    janitor.close();
    assertFalse(janitor.start(new JanitorTask.Du()));
  }

  @Test
  void gc_logsOfUses_goWhenTheyAreTooOld() throws Exception {
    try (UseLog log = new UseLog(store, "node-b", UseLog.Options.defaults())) {
      log.used(blocks.key(1));
      assertTrue(log.tell());
      clock.passMs(31 * 24 * HOUR_MS);
      log.used(blocks.key(2));
    }
    JanitorReport report = gc(10);
    assertEquals(1, report.uses().objects());
    assertEquals(1, listed(ReservedNames.USED).size());
  }

  @Test
  void gc_moreUsesThanThereIsRoomFor_keepsTheNewest() throws Exception {
    putHourly(0, 40);
    UseLog.Options all = new UseLog.Options(5000, 1, TIMEOUT_NS);
    try (UseLog log = new UseLog(store, "node-b", all)) {
      for (int number = 0; number < 30; number++) {
        log.used(blocks.key(number));
        assertTrue(log.tell());
        clock.passMs(HOUR_MS);
      }
    }
    ObjectJanitor.Options few =
        new ObjectJanitor.Options(
            new ObjectJanitor.Cap(20L * OBJECT_BYTES, 100, GRACE_MS),
            new ObjectJanitor.Pace(1_000_000, 30_000, HOUR_MS, 60_000),
            new ObjectJanitor.KnownUses(10, 30 * 24 * HOUR_MS),
            HOUR_MS);
    JanitorReport report = run(few, new JanitorTask.Gc());
    assertEquals(10, report.uses().objects());
    assertEquals(numbers(20, 40), present(0, 40), report.text());
    assertEquals(10, listed(ReservedNames.USED).size(), "the others will never be read");
  }

  @Test
  void gc_logsThatAreNone_areIgnored() throws Exception {
    putHourly(0, 10);
    put(ReservedNames.used("node", 1), "x");
    put(ReservedNames.used("node", 2), "x".repeat(160));
    JanitorReport report = gc(5);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(0, report.uses().logs());
  }

  @Test
  void useLog_storeFails_keepsTheUsesForTheNextTime() throws Exception {
    UseLog log = new UseLog(store, "node-b", new UseLog.Options(2, 1, TIMEOUT_NS));
    log.used(blocks.key(1));
    store.meddle((_, _) -> new StoreResult.Unavailable("down"));
    assertFalse(log.tell());
    store.meddle((_, _) -> null);
    log.used(blocks.key(2));
    log.used(blocks.key(2));
    log.used(blocks.key(3));
    assertEquals(1, log.forgotten());
    assertTrue(log.tell());
    assertEquals(1, listed(ReservedNames.USED).size());
    UseTable table = UseTable.read(calls(store, clock), 100, 0);
    assertEquals(2, table.size());
    assertTrue(table.lastUseMs(UseLogDescriptor.digest(blocks.key(1))) >= clock.ms());
    assertEquals(0, table.lastUseMs(UseLogDescriptor.digest(blocks.key(3))));
    assertTrue(log.tell(), "nothing to tell");
    assertEquals(1, listed(ReservedNames.USED).size());
    log.close();
  }

  @Test
  void useLog_started_tellsByItself() throws Exception {
    try (UseLog log =
        new UseLog(
            store,
            "node-b",
            new UseLog.Options(10, TimeUnit.MILLISECONDS.toNanos(5), TIMEOUT_NS))) {
      log.start(MemoryJanitorTest::unexpected);
      log.used(blocks.key(1));
      long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
      while (listed(ReservedNames.USED).isEmpty()) {
        assertTrue(System.nanoTime() < endNs, "never told");
        Thread.sleep(5);
      }
      assertThrows(IllegalStateException.class, () -> log.start(MemoryJanitorTest::unexpected));
    }
  }

  @Test
  void useLog_storeHasADefect_isTold() throws Exception {
    store.meddle((_, _) -> {
      throw new IllegalStateException("planted");
    });
    UseLog log =
        new UseLog(
            store, "node-b", new UseLog.Options(10, TimeUnit.MILLISECONDS.toNanos(5), TIMEOUT_NS));
    log.used(blocks.key(1));
    CompletableFuture<Throwable> defect = new CompletableFuture<>();
    log.start(defect::complete);
    assertEquals("planted", defect.get(60, TimeUnit.SECONDS).getMessage());
    store.meddle((_, _) -> null);
    log.close();
  }

  private static void unexpected(Throwable defect) {
    throw new AssertionError("a defect", defect);
  }

  @Test
  void verify_aFraction_readsAboutThatMany() throws Exception {
    putHourly(0, 2000);
    JanitorReport report = run(options(0), new JanitorTask.Verify(0.1, false));
    long verified = report.amount(JanitorCount.VERIFIED).objects();
    // Ten standard deviations.
    assertTrue(verified > 65 && verified < 335, "" + verified);
    assertEquals(2000, report.amount(JanitorCount.SEEN).objects());
  }

  @Test
  void verify_damagedOnItsWayOnce_isNotDamaged() throws Exception {
    putHourly(0, 1);
    AtomicInteger gets = new AtomicInteger();
    store.meddle((verb, _) ->
        verb.equals("get") && gets.incrementAndGet() == 1
            ? new StoreResult.Corrupt("the network")
            : null);
    JanitorReport report = run(options(0), new JanitorTask.Verify(1, true));
    assertEquals(0, report.amount(JanitorCount.CORRUPT).objects());
    assertEquals(1, report.amount(JanitorCount.VERIFIED).objects());
  }

  @Test
  void whatCannotWork_isRefusedByName() {
    assertRefused("a/b", () -> new ObjectJanitor(store, "a/b", options(0), null, _ -> {}));
    assertRefused(".a", () -> new ObjectJanitor(store, ".a", options(0), null, _ -> {}));
    assertRefused("a b", () -> new UseLog(store, "a b", UseLog.Options.defaults()));
    assertRefused("-1 bytes", () -> options(-1));
    assertRefused("0.0", () -> new JanitorTask.Verify(0, false));
    assertRefused("NaN", () -> new JanitorTask.Verify(Double.NaN, false));
    assertRefused("'abc'", () -> new JanitorTask.RemoveNamespace("abc"));
    assertRefused("32", () -> new JanitorTask.RemoveNamespace("0".repeat(31) + "A"));
    assertRefused("keys", () -> new UseLog.Options(0, 1, 1));
  }

  private static void assertRefused(String word, org.junit.jupiter.api.function.Executable made) {
    IllegalArgumentException refusal = assertThrows(IllegalArgumentException.class, made);
    assertTrue(String.valueOf(refusal.getMessage()).contains(word), refusal.getMessage());
  }
}

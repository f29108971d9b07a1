package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.ledger.PresenceLedger;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class PresenceCacheTest {
  private static final long PRESENT_NS = 1000;
  private static final long ABSENT_NS = 100;

  private static final long AGE_MS = TimeUnit.DAYS.toMillis(1);

  @TempDir Path directory;

  private final FakeStore store = new FakeStore();
  private long now;

  private PresenceCache cache(long bytes, int probes) {
    return new PresenceCache(
        store,
        new PresenceCache.Options(bytes, PRESENT_NS, ABSENT_NS, probes, 1),
        null,
        () -> now,
        Runnable::run);
  }

  private static ObjectKey key(int number) {
    byte[] key = new byte[32];
    for (int i = 0; i < 4; i++) {
      key[i] = (byte) (number >>> (8 * i));
    }
    return ObjectKey.of(1, 2, key, 32, 0);
  }

  private static Supplier<String> nameOf(int number) {
    return () -> "k" + number;
  }

  /** Probes keys; returns how many probes were taken. */
  private static int probe(PresenceCache cache, int from, int to) {
    int taken = 0;
    for (int i = from; i < to; i++) {
      taken += cache.probe(key(i), nameOf(i), null) ? 1 : 0;
    }
    return taken;
  }

  @Test
  void lookup_whatWasSeen_isKnownForAWhile() {
    PresenceCache cache = cache(1 << 20, 1);
    cache.present(key(1));
    cache.absent(key(2));
    assertEquals(Presence.PRESENT, cache.lookup(key(1)));
    assertEquals(Presence.ABSENT, cache.lookup(key(2)));
    assertEquals(Presence.UNKNOWN, cache.lookup(key(3)));
    now = ABSENT_NS;
    assertEquals(Presence.PRESENT, cache.lookup(key(1)));
    assertEquals(Presence.UNKNOWN, cache.lookup(key(2)));
    now = PRESENT_NS;
    assertEquals(Presence.UNKNOWN, cache.lookup(key(1)));
    assertEquals(0, store.asked.size());
  }

  @Test
  void lookup_laterNews_count() {
    PresenceCache cache = cache(1 << 20, 1);
    cache.absent(key(1));
    cache.present(key(1));
    now = ABSENT_NS;
    assertEquals(Presence.PRESENT, cache.lookup(key(1)));
    cache.forget(key(1));
    assertEquals(Presence.UNKNOWN, cache.lookup(key(1)));
  }

  @Test
  void probe_unknownKeys_areAskedForOnce() {
    PresenceCache cache = cache(1 << 20, 2);
    store.objects.put("k1", new byte[10]);
    cache.present(key(0));
    assertEquals(5, probe(cache, 0, 5));
    assertEquals(5, probe(cache, 0, 5));
    assertEquals(2, store.asked.size());
    Set<String> asked = new HashSet<>();
    while (!store.asked.isEmpty()) {
      assertTrue(store.asked.size() <= 2);
      assertTrue(asked.add(store.answer().name()));
    }
    assertEquals(Set.of("k1", "k2", "k3", "k4"), asked);
    assertEquals(Presence.PRESENT, cache.lookup(key(1)));
    assertEquals(Presence.ABSENT, cache.lookup(key(2)));
    assertEquals(5, probe(cache, 0, 5));
    assertEquals(0, store.asked.size());
  }

  @Test
  void probe_whoWantsToKnow_isTold() {
    PresenceCache cache = cache(1 << 20, 2);
    store.objects.put("k1", new byte[10]);
    cache.absent(key(0));
    List<String> told = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      int number = i;
      assertTrue(cache.probe(key(i), nameOf(i), found -> told.add(number + " " + found)));
      assertTrue(cache.probe(key(i), nameOf(i), found -> told.add(number + " too " + found)));
    }
    assertEquals(List.of("0 ABSENT", "0 too ABSENT"), told);
    while (!store.asked.isEmpty()) {
      store.answer();
    }
    assertEquals(
        List.of(
            "0 ABSENT", "0 too ABSENT", "1 PRESENT", "1 too PRESENT", "2 ABSENT", "2 too ABSENT"),
        told);
  }

  @Test
  void probe_moreThanCanWait_leavesTheRestUnknown() {
    PresenceCache cache = cache(1 << 20, 2);
    assertEquals(2 + 32, probe(cache, 0, 1000));
  }

  @Test
  void probe_storeFails_isUnknownAndCanBeProbedAgain() {
    PresenceCache cache = cache(1 << 20, 2);
    List<Presence> told = new ArrayList<>();
    cache.probe(key(1), () -> "k1", told::add);
    store.next().call().end(new StoreResult.Unavailable("down"));
    assertEquals(List.of(Presence.UNKNOWN), told);
    assertEquals(Presence.UNKNOWN, cache.lookup(key(1)));
    cache.probe(key(1), () -> "k1", null);
    assertEquals(1, store.asked.size());
  }

  @Test
  void trouble_isTheLastOfSomeQuestionsInARowThatWereNotAnswered() {
    PresenceCache cache = cache(1 << 20, 2);
    assertEquals("", cache.trouble());
    cache.heard(new StoreResult.Unavailable("no route"));
    cache.heard(new StoreResult.Unavailable("no route"));
    assertEquals("", cache.trouble());
    cache.probe(key(1), () -> "k1", null);
    store.next().call().end(new StoreResult.Unavailable("down"));
    assertEquals("down", cache.trouble());
    cache.probe(key(2), () -> "k2", null);
    store.next().call().end(new StoreResult.Absent());
    assertEquals("", cache.trouble());
    cache.heard(new StoreResult.Unavailable("no route"));
    assertEquals("", cache.trouble());
  }

  @Test
  void trouble_afterAMinuteWithoutQuestions_isForgotten() {
    PresenceCache cache = cache(1 << 20, 2);
    for (int i = 0; i < 3; i++) {
      cache.heard(new StoreResult.Unavailable("no route"));
    }
    now += TimeUnit.SECONDS.toNanos(60);
    assertEquals("no route", cache.trouble());
    now += 1;
    assertEquals("", cache.trouble());
    cache.heard(new StoreResult.Unavailable("still none"));
    assertEquals("still none", cache.trouble());
  }

  @Test
  void probe_ofAStoreThatDoesNotAnswer_promisesNothing_butAsks() {
    PresenceCache cache = cache(1 << 20, 2);
    for (int i = 0; i < 3; i++) {
      assertTrue(cache.probe(key(i), nameOf(i), null));
      store.next().call().end(new StoreResult.Unavailable("down"));
    }
    assertTrue(cache.probe(key(3), () -> "k3", null), "it is asked all the same");
    assertTrue(cache.isSilent());
    store.next().call().end(new StoreResult.Absent());
    assertFalse(cache.isSilent());
  }

  private PresenceLedger ledger() throws IOException {
    return new PresenceLedger(
        directory,
        PresenceLedger.BYTES_MIN,
        AGE_MS,
        thrown -> {
          throw new AssertionError(thrown);
        });
  }

  private PresenceCache cache(long bytes, PresenceLedger ledger) {
    return new PresenceCache(
        store,
        new PresenceCache.Options(bytes, PRESENT_NS, ABSENT_NS, 4, 1),
        ledger,
        () -> now,
        Runnable::run);
  }

  private static void await(BooleanSupplier condition) throws InterruptedException {
    for (int i = 0; i < 9000 && !condition.getAsBoolean(); i++) {
      TimeUnit.MILLISECONDS.sleep(10);
    }
    assertTrue(condition.getAsBoolean());
  }

  @Test
  void open_withLedger_knowsWhatWasPresent() throws Exception {
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      for (int i = 0; i < 10; i++) {
        cache.present(key(i));
      }
      cache.absent(key(3));
      cache.forget(key(4));
      cache.absent(key(20));
    }
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      await(() -> cache.size() == 8);
      for (int i = 0; i < 21; i++) {
        assertEquals(
            i < 10 && i != 3 && i != 4 ? Presence.PRESENT : Presence.UNKNOWN,
            cache.lookup(key(i)),
            "key " + i);
      }
    }
    assertEquals(0, store.asked.size());
  }

  @Test
  void open_withMoreInTheLedger_keepsItsOwnBound() throws Exception {
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1000L * PresenceCache.BYTES_PER_KEY, ledger);
      for (int i = 0; i < 5000; i++) {
        cache.present(key(i));
      }
    }
    PresenceCache cache;
    try (PresenceLedger ledger = ledger()) {
      cache = cache(1000L * PresenceCache.BYTES_PER_KEY, ledger);
      await(() -> cache.size() == 1000);
      probe(cache, 0, 5000);
    }
    // Only now the ledger has answered all that it was asked for.
    cache.cleanUp();
    assertTrue(cache.size() <= 1000);
  }

  @Test
  void probe_inTheLedger_isNotAskedOfTheStore() throws Exception {
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      cache.present(key(1));
      now += PRESENT_NS;
      assertEquals(Presence.UNKNOWN, cache.lookup(key(1)));
      probe(cache, 1, 3);
      await(() -> cache.lookup(key(1)) == Presence.PRESENT && store.asked.size() == 1);
      assertEquals("k2", store.answer().name());
      assertEquals(Presence.ABSENT, cache.lookup(key(2)));
    }
  }

  @Test
  void probe_tooOldInTheLedger_isAskedOfTheStore() throws Exception {
    try (PresenceLedger ledger =
        new PresenceLedger(directory, PresenceLedger.BYTES_MIN, 1, thrown -> {})) {
      PresenceCache cache = cache(1 << 20, ledger);
      cache.present(key(1));
      long noted = System.currentTimeMillis();
      await(() -> System.currentTimeMillis() > noted + 1);
      now += PRESENT_NS;
      probe(cache, 1, 2);
      await(() -> store.asked.size() == 1);
      assertEquals("k1", store.answer().name());
    }
  }

  @Test
  void present_againAfterAQuarterOfTheAge_isNotedAgain() throws Exception {
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      long quarterNs = TimeUnit.MILLISECONDS.toNanos(AGE_MS) / 4;
      cache.present(key(1));
      ledger.forget(key(1).high(), key(1).low());
      now += PRESENT_NS / 2;
      cache.present(key(1));
      assertFalse(holds(ledger, key(1)));
      now = quarterNs;
      cache.present(key(1));
      assertTrue(holds(ledger, key(1)));
    }
  }

  private static boolean holds(PresenceLedger ledger, ObjectKey key) {
    CompletableFuture<Boolean> answer = new CompletableFuture<>();
    assertTrue(ledger.find(key.high(), key.low(), answer::complete));
    return answer.orTimeout(90, TimeUnit.SECONDS).join();
  }

  @Test
  void forgetAll_holdsAfterARestart() throws Exception {
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      cache.present(key(1));
      cache.present(key(2));
      cache.forgetAll();
      long cleared = System.currentTimeMillis();
      await(() -> System.currentTimeMillis() > cleared);
      cache.present(key(2));
      assertFalse(holds(ledger, key(1)));
      assertTrue(holds(ledger, key(2)));
    }
    try (PresenceLedger ledger = ledger()) {
      PresenceCache cache = cache(1 << 20, ledger);
      assertFalse(holds(ledger, key(1)));
      assertTrue(holds(ledger, key(2)));
      assertEquals(Presence.UNKNOWN, cache.lookup(key(1)));
      assertEquals(Presence.PRESENT, cache.lookup(key(2)));
    }
  }

  /** A closed ledger answers no questions. */
  @Test
  void probe_ledgerIsClosed_isAskedOfTheStore() throws Exception {
    PresenceLedger ledger = ledger();
    PresenceCache cache = cache(1 << 20, ledger);
    ledger.close();
    cache.present(key(9));
    probe(cache, 1, 3);
    assertEquals(2, store.asked.size());
  }

  @Test
  void manyKeys_stayWithinTheBound() {
    PresenceCache cache = cache(100L * PresenceCache.BYTES_PER_KEY, 1);
    for (int i = 0; i < 100_000; i++) {
      cache.present(key(i));
    }
    cache.cleanUp();
    assertTrue(cache.size() <= 100, "keeps " + cache.size());
  }

  /** The bound in bytes relies on this number. */
  @Test
  void key_takesNoMoreThanIsCounted() {
    int count = 400_000;
    PresenceCache cache = cache((long) count * PresenceCache.BYTES_PER_KEY, 1);
    cache.present(key(-1));
    long before = usedBytes();
    for (int i = 0; i < count; i++) {
      cache.present(key(i));
    }
    cache.cleanUp();
    long size = cache.size();
    double bytesPerKey = (usedBytes() - before) / (double) size;
    System.out.printf("a key in the presence cache takes %.0f bytes%n", bytesPerKey);
    assertTrue(size > 0.9 * count, "keeps " + size);
    assertTrue(bytesPerKey <= PresenceCache.BYTES_PER_KEY, "a key takes " + bytesPerKey);
    assertTrue(bytesPerKey >= 0.5 * PresenceCache.BYTES_PER_KEY, "a key takes " + bytesPerKey);
    assertEquals(Presence.UNKNOWN, cache.lookup(key(-2)));
  }

  private static long usedBytes() {
    Runtime runtime = Runtime.getRuntime();
    long used = Long.MAX_VALUE;
    for (int i = 0; i < 3; i++) {
      System.gc();
      used = Math.min(used, runtime.totalMemory() - runtime.freeMemory());
    }
    return used;
  }
}

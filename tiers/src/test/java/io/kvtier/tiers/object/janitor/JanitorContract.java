package io.kvtier.tiers.object.janitor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.object.ClockedStore;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.StoredObject;
import io.kvtier.tiers.object.TestBlocks;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The contract of lease, log of uses and janitor on every store. */
abstract class JanitorContract {
  static final long TIMEOUT_NS = TimeUnit.SECONDS.toNanos(30);
  static final long HOUR_MS = TimeUnit.HOURS.toMillis(1);
  static final long GRACE_MS = TimeUnit.MINUTES.toMillis(10);
  static final int BLOCK_BYTES = 4000;
  static final int OBJECT_BYTES = BLOCK_BYTES + 192;

  final Arena arena = Arena.ofShared();
  final SimulatedClock clock = new SimulatedClock();
  final TestBlocks blocks = new TestBlocks(arena, BLOCK_BYTES);
  ObjectStore bare;
  ClockedStore store;

  abstract ObjectStore open() throws Exception;

  @BeforeEach
  void openStore() throws Exception {
    bare = open();
    store = new ClockedStore(bare, clock::ms);
  }

  @AfterEach
  void closeStore() {
    store.close();
    arena.close();
  }

  static ObjectJanitor.Options options(long capBytes) {
    return new ObjectJanitor.Options(
        new ObjectJanitor.Cap(capBytes, 90, GRACE_MS),
        new ObjectJanitor.Pace(
            1_000_000, TimeUnit.SECONDS.toMillis(30), 24 * HOUR_MS, TimeUnit.MINUTES.toMillis(5)),
        new ObjectJanitor.KnownUses(10_000, 30 * 24 * HOUR_MS),
        24 * HOUR_MS);
  }

  JanitorReport run(ObjectJanitor.Options options, JanitorTask task) throws Exception {
    try (ObjectJanitor janitor =
        new ObjectJanitor(store, "node-a", options, null, _ -> {}, clock)) {
      assertTrue(janitor.start(task));
      return janitor.await();
    }
  }

  JanitorReport gc(int capObjects) throws Exception {
    return run(options((long) capObjects * OBJECT_BYTES), new JanitorTask.Gc());
  }

  JanitorCalls calls(ObjectStore on, JanitorClock by) {
    return new JanitorCalls(
        on,
        by,
        new JanitorCalls.Bounds(0, TIMEOUT_NS, 5, _ -> {}),
        Thread.currentThread(),
        by.nanoTime() + TimeUnit.DAYS.toNanos(300));
  }

  void put(String name, List<MemorySegment> parts) {
    StoreResult result = store.put(name, parts, false, TIMEOUT_NS).result().join();
    assertTrue(result instanceof StoreResult.Done, name + ": " + result);
  }

  void put(String name, String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    put(name, List.of(arena.allocate(bytes.length).copyFrom(MemorySegment.ofArray(bytes))));
  }

  /** Blocks of these numbers, an hour apart. */
  void putHourly(int from, int to) {
    for (int number = from; number < to; number++) {
      put(blocks.name(number), blocks.object(number));
      clock.passMs(HOUR_MS);
    }
  }

  Set<Integer> present(int from, int to) {
    Set<Integer> numbers = new TreeSet<>();
    for (int number = from; number < to; number++) {
      if (blocks.read(store, number, TIMEOUT_NS)) {
        numbers.add(number);
      }
    }
    return numbers;
  }

  static Set<Integer> numbers(int from, int to) {
    Set<Integer> numbers = new TreeSet<>();
    for (int number = from; number < to; number++) {
      numbers.add(number);
    }
    return numbers;
  }

  Map<String, StoredObject> listed(String prefix) throws Exception {
    Map<String, StoredObject> all = new TreeMap<>();
    calls(store, clock).list(prefix, page -> page.forEach(o -> all.put(o.name(), o)));
    return all;
  }

  // The lease.

  @Test
  void acquire_twoAtOnce_oneGetsIt() throws Exception {
    CyclicBarrier together = new CyclicBarrier(2);
    AtomicInteger holders = new AtomicInteger();
    Callable<Integer> contender =
        () -> {
          ObjectLease lease =
              new ObjectLease(
                  "node-" + Thread.currentThread().threadId(), HOUR_MS, JanitorClock.SYSTEM);
          JanitorCalls calls = calls(bare, JanitorClock.SYSTEM);
          int won = 0;
          for (int round = 0; round < 100; round++) {
            together.await(60, TimeUnit.SECONDS);
            boolean held = lease.acquire(calls);
            if (held) {
              won++;
              assertEquals(1, holders.incrementAndGet(), "two hold it in round " + round);
              assertTrue(lease.isHeld());
            }
            together.await(60, TimeUnit.SECONDS);
            assertEquals(1, holders.get(), "nobody holds it in round " + round);
            together.await(60, TimeUnit.SECONDS);
            if (held) {
              holders.decrementAndGet();
              lease.release(calls);
              assertFalse(lease.isHeld());
            }
          }
          return won;
        };
    try (ExecutorService threads = Executors.newFixedThreadPool(2)) {
      Future<Integer> first = threads.submit(contender);
      Future<Integer> second = threads.submit(contender);
      assertEquals(100, first.get() + second.get());
    }
    // One term, which was given back; those before it are gone.
    List<StoredObject> left = new ArrayList<>();
    calls(bare, JanitorClock.SYSTEM).list(ReservedNames.ALL, left::addAll); // no clocks, either
    assertEquals(
        List.of(ReservedNames.lease(200)),
        left.stream().map(StoredObject::name).toList(),
        "a term a round, and one for giving it back");
  }

  @Test
  void acquire_holderDied_waitsForItsTime() throws Exception {
    long termMs = 60_000;
    ObjectLease dead = new ObjectLease("dead", termMs, clock);
    ObjectLease next = new ObjectLease("next", 1, clock);
    JanitorCalls calls = calls(store, clock);
    assertTrue(dead.acquire(calls));
    assertFalse(next.acquire(calls));
    assertEquals("dead", next.other());
    clock.passMs(termMs);
    assertFalse(dead.isHeld());
    assertFalse(next.acquire(calls), "a store's clock may be cut to seconds");
    clock.passMs(ObjectLease.GRAIN_MS);
    assertTrue(next.acquire(calls));
    assertFalse(dead.keep(calls), "it is another's by now");
    assertFalse(dead.isHeld());
  }

  @Test
  void keep_inTime_isHeldForEver() throws Exception {
    ObjectLease holder = new ObjectLease("holder", 60_000, clock);
    ObjectLease other = new ObjectLease("other", 60_000, clock);
    JanitorCalls calls = calls(store, clock);
    assertTrue(holder.acquire(calls));
    for (int i = 0; i < 20; i++) {
      clock.passMs(25_000);
      assertTrue(holder.keep(calls));
      assertFalse(other.acquire(calls));
    }
    assertEquals(1, listed(ReservedNames.LEASES).size());
    holder.release(calls);
    assertTrue(other.acquire(calls));
  }

  @Test
  void acquire_byTheStoresOwnTimes_runsOut() throws Exception {
    JanitorCalls calls = calls(bare, JanitorClock.SYSTEM);
    ObjectLease first = new ObjectLease("first", HOUR_MS, JanitorClock.SYSTEM);
    assertTrue(first.acquire(calls));
    assertFalse(new ObjectLease("second", 1, JanitorClock.SYSTEM).acquire(calls));
    first.release(calls);
    assertTrue(new ObjectLease("short", 1, JanitorClock.SYSTEM).acquire(calls));
    ObjectLease last = new ObjectLease("last", HOUR_MS, JanitorClock.SYSTEM);
    long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!last.acquire(calls)) {
      assertTrue(System.nanoTime() < endNs, "the term of a millisecond never runs out");
      Thread.sleep(100);
    }
    assertTrue(
        Math.abs(last.storeTimeMs() - System.currentTimeMillis()) < HOUR_MS, "the store's time");
  }

  // Collecting.

  @Test
  void gc_aboveTheCap_deletesTheOldestDownToTheLowMark() throws Exception {
    putHourly(0, 40);
    JanitorReport report = gc(30);
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(numbers(13, 40), present(0, 40));
    assertEquals(13, report.amount(JanitorCount.DELETED).objects());
    assertEquals(
        new JanitorReport.Amount(27, 27L * OBJECT_BYTES), report.amount(JanitorCount.LEFT));
    assertEquals("", report.reason());
  }

  @Test
  void gc_belowTheCap_deletesNothing() throws Exception {
    putHourly(0, 10);
    JanitorReport report = gc(10);
    assertEquals(JanitorReport.State.DONE, report.state());
    assertEquals(1, report.effort().passes());
    assertEquals(numbers(0, 10), present(0, 10));
  }

  @Test
  void gc_usedLately_isKeptBeforeUnused() throws Exception {
    putHourly(0, 40);
    try (UseLog log = new UseLog(store, "node-b", UseLog.Options.defaults())) {
      log.used(blocks.key(3));
      assertTrue(log.tell());
      clock.passMs(HOUR_MS);
      log.used(blocks.key(5));
      log.used(blocks.key(5));
    }
    assertEquals(2, listed(ReservedNames.USED).size());
    JanitorReport report = gc(30);
    Set<Integer> expected = numbers(15, 40);
    expected.addAll(Set.of(3, 5));
    assertEquals(expected, present(0, 40), report.text());
    assertEquals(2, report.uses().objects());
    assertEquals(2, report.uses().logs());
  }

  @Test
  void gc_nothingOlderThanTheGraceTime_keepsAllAndSaysSo() throws Exception {
    putHourly(0, 5);
    for (int number = 5; number < 40; number++) {
      put(blocks.name(number), blocks.object(number));
    }
    clock.passMs(GRACE_MS - 60_000);
    JanitorReport report = gc(20);
    assertEquals(JanitorReport.State.DONE, report.state());
    assertEquals(numbers(5, 40), present(0, 40));
    assertEquals(35, report.amount(JanitorCount.YOUNG).objects());
    assertTrue(report.reason().contains(15 * OBJECT_BYTES + " bytes above"), report.reason());
  }

  @Test
  void gc_anotherNodeCollects_leavesItAlone() throws Exception {
    putHourly(0, 10);
    ObjectLease other = new ObjectLease("node-b", HOUR_MS, clock);
    assertTrue(other.acquire(calls(store, clock)));
    JanitorReport report = gc(5);
    assertEquals(JanitorReport.State.BUSY, report.state());
    assertTrue(report.reason().contains("node-b"), report.reason());
    assertEquals(numbers(0, 10), present(0, 10));
  }

  @Test
  void gc_whatIsNoBlock_staysAndIsNamed() throws Exception {
    put("README", "somebody else's");
    put(blocks.name(1) + ".old", "nearly a block's name");
    putHourly(0, 10);
    JanitorReport report = gc(5);
    assertEquals(2, report.amount(JanitorCount.FOREIGN).objects());
    assertEquals(
        Set.of("README", blocks.name(1) + ".old"), Set.copyOf(report.finds().foreignNames()));
    assertTrue(listed("").containsKey("README"));
    assertEquals(4, report.amount(JanitorCount.LEFT).objects());
  }

  /** Rounds of an hour; in each, all write and read while a run collects. */
  @Test
  void gc_writersAndReadersAtOnce_holdsTheCapAndBreaksNothing() throws Exception {
    int perRound = 40;
    int capObjects = 200;
    AtomicInteger nextNumber = new AtomicInteger();
    AtomicBoolean stop = new AtomicBoolean();
    AtomicInteger hits = new AtomicInteger();
    AtomicInteger misses = new AtomicInteger();
    Map<Integer, Long> writtenMs = new ConcurrentHashMap<>();
    CyclicBarrier round = new CyclicBarrier(5);
    Callable<Void> writer =
        () -> {
          TestBlocks own = new TestBlocks(arena, BLOCK_BYTES);
          while (true) {
            round.await(60, TimeUnit.SECONDS);
            if (stop.get()) {
              return null;
            }
            for (int i = 0; i < perRound / 4; i++) {
              int number = nextNumber.getAndIncrement();
              put(own.name(number), own.object(number));
              writtenMs.put(number, store.writtenMs(own.name(number)));
            }
            round.await(60, TimeUnit.SECONDS);
          }
        };
    Callable<Void> reader =
        () -> {
          TestBlocks own = new TestBlocks(arena, BLOCK_BYTES);
          while (!stop.get()) {
            int number = ThreadLocalRandom.current().nextInt(nextNumber.get() + 1);
            (own.read(store, number, TIMEOUT_NS) ? hits : misses).incrementAndGet();
          }
          return null;
        };
    List<Future<Void>> all = new ArrayList<>();
    try (ExecutorService threads = Executors.newFixedThreadPool(8);
        AutoCloseable _ = () -> stop.set(true)) {
      for (int i = 0; i < 4; i++) {
        all.add(threads.submit(writer));
        all.add(threads.submit(reader));
      }
      for (int i = 0; i < 12; i++) {
        Set<Integer> before = Set.copyOf(writtenMs.keySet());
        long youngMs = clock.ms() - GRACE_MS;
        round.await(60, TimeUnit.SECONDS);
        JanitorReport report = gc(capObjects);
        round.await(60, TimeUnit.SECONDS);
        assertEquals(JanitorReport.State.DONE, report.state(), report.text());
        assertEquals("", report.reason());
        assertTrue(report.amount(JanitorCount.LEFT).objects() <= capObjects, report::text);
        Map<String, StoredObject> there = listed(blocks.name(0).substring(0, 33));
        long leftOfBefore =
            before.stream().filter(number -> there.containsKey(blocks.name(number))).count();
        assertTrue(leftOfBefore <= capObjects, leftOfBefore + " of " + before.size());
        if (before.size() > capObjects) {
          assertTrue(
              there.size() >= 0.9 * capObjects - 1, "no more than that goes: " + there.size());
        }
        long firstLeft =
            before.stream()
                .filter(n -> there.containsKey(blocks.name(n)))
                .mapToLong(n -> n)
                .min()
                .orElse(0);
        for (Map.Entry<Integer, Long> block : writtenMs.entrySet()) {
          boolean isThere = there.containsKey(blocks.name(block.getKey()));
          assertTrue(isThere || block.getValue() < youngMs, () -> "young, but gone: " + block);
          // A round is an hour older than the next one: it goes first.
          assertTrue(
              isThere || block.getKey() < firstLeft + perRound,
              () -> "gone before an older one: " + block);
        }
        clock.passMs(HOUR_MS);
      }
      stop.set(true);
      round.await(60, TimeUnit.SECONDS);
      for (Future<Void> one : all) {
        one.get(60, TimeUnit.SECONDS);
      }
    }
    assertTrue(hits.get() > 0 && misses.get() > 0, hits + " hits, " + misses + " misses");
    assertTrue(present(0, nextNumber.get()).size() <= capObjects + perRound);
  }

  // The other tasks.

  @Test
  void du_severalNamespaces_countsEach() throws Exception {
    putHourly(0, 10);
    put("0000000000000001000000000000000f/ab/abcd.g7", "12345");
    put("notes/README", "somebody else's");
    put(ReservedNames.used("node", 1), "x");
    JanitorReport report = run(options(0), new JanitorTask.Du());
    assertEquals(
        List.of(
            new JanitorReport.Namespace(
                "00000000000000010000000000000002",
                new JanitorReport.Amount(10, 10L * OBJECT_BYTES)),
            new JanitorReport.Namespace(
                "0000000000000001000000000000000f", new JanitorReport.Amount(1, 5))),
        report.finds().namespaces());
    assertEquals(new JanitorReport.Amount(1, 15), report.amount(JanitorCount.FOREIGN));
    assertEquals(new JanitorReport.Amount(1, 1), report.amount(JanitorCount.RESERVED));
    assertEquals(11, report.amount(JanitorCount.SEEN).objects());
    assertTrue(report.text().contains("00000000000000010000000000000002"), report.text());
    assertTrue(report.json().contains("\"foreign\":{\"objects\":1,\"bytes\":15}"), report.json());
  }

  private byte[] object(int number) {
    List<MemorySegment> parts = blocks.object(number);
    byte[] header = parts.get(0).toArray(ValueLayout.JAVA_BYTE);
    byte[] body = parts.get(1).toArray(ValueLayout.JAVA_BYTE);
    byte[] object = Arrays.copyOf(header, header.length + body.length);
    System.arraycopy(body, 0, object, header.length, body.length);
    return object;
  }

  private void put(String name, byte[] bytes) {
    put(
        name,
        List.of(arena.allocate(Math.max(1, bytes.length)).copyFrom(MemorySegment.ofArray(bytes))));
  }

  @Test
  void verify_damagedObjects_areFoundAndDeletedIfWanted() throws Exception {
    TestBlocks encoded = new TestBlocks(arena, BLOCK_BYTES, "zstd");
    putHourly(0, 5);
    for (int number = 5; number < 8; number++) {
      put(encoded.name(number), encoded.object(number));
    }
    byte[] flipped = object(2);
    flipped[1000] ^= 4;
    put(blocks.name(2), flipped);
    put(blocks.name(3), Arrays.copyOf(object(3), OBJECT_BYTES - 1));
    byte[] header = object(4);
    header[70] ^= 1;
    put(blocks.name(4), header);
    put(blocks.name(20), object(1));
    put(blocks.name(21), Arrays.copyOf(object(21), OBJECT_BYTES + 1));
    put(blocks.name(22), new byte[] {1});
    Set<String> damaged = new TreeSet<>();
    for (int number : new int[] {2, 3, 4, 20, 21, 22}) {
      damaged.add(blocks.name(number));
    }
    JanitorReport report = run(options(0), new JanitorTask.Verify(1, false));
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(damaged, new TreeSet<>(report.finds().corruptNames()));
    assertEquals(11, report.amount(JanitorCount.VERIFIED).objects());
    assertEquals(0, report.amount(JanitorCount.DELETED).objects());
    assertEquals(11, listed("0").size());
    report = run(options(0), new JanitorTask.Verify(1, true));
    assertEquals(6, report.amount(JanitorCount.DELETED).objects());
    assertEquals(Set.of(0, 1, 5, 6, 7), present(0, 8));
    assertEquals(5, listed("0").size());
    report = run(options(0), new JanitorTask.Verify(1, true));
    assertEquals(0, report.amount(JanitorCount.CORRUPT).objects());
  }

  @Test
  void removeNamespace_itsBlocks_goAndNoOthers() throws Exception {
    for (int number = 0; number < 20; number++) {
      put(blocks.name(number), blocks.object(number));
    }
    String other = "0000000000000001000000000000000f/ab/abcd.g7";
    String near = blocks.name(0).substring(0, 33) + "not-a-block";
    put(other, "12345");
    put(near, "12345");
    JanitorReport report =
        run(options(0), new JanitorTask.RemoveNamespace("00000000000000010000000000000002/"));
    assertEquals(JanitorReport.State.DONE, report.state(), report.text());
    assertEquals(20, report.amount(JanitorCount.DELETED).objects());
    assertEquals(List.of(near), report.finds().foreignNames());
    assertEquals(Set.of(other, near), listed("0").keySet());
  }
}

package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The pipeline on a clock of the test's, one step after the other, with a store in memory. */
final class ObjectPipelineTest {
  private static final int BLOCK_BYTES = 1000;
  private static final long MS = 1_000_000;
  private static final long LOAD_NS = 1000 * MS;
  private static final long STORE_NS = 5000 * MS;
  private static final long OPEN_NS = 100 * MS;

  private final Arena arena = Arena.ofShared();
  private final ObjectTransfers transfers = new ObjectTransfers(arena, BLOCK_BYTES);
  private final FakeStore store = new FakeStore();
  private final List<Transfer> finished = new ArrayList<>();
  private long now = 1;
  private @Nullable ObjectPipeline made;

  @AfterEach
  void close() {
    if (made != null) {
      made.close();
    }
    arena.close();
  }

  private ObjectPipeline pipeline(int calls, int saved) {
    return pipeline(calls, saved, 0, 0);
  }

  private ObjectPipeline pipeline(int calls, int saved, long loadBytesPerSecond, long hedgeNs) {
    ObjectPipelineOptions options =
        new ObjectPipelineOptions(
            new ObjectPipelineOptions.Capacity(32, 1),
            "none",
            new ObjectPipelineOptions.Times(LOAD_NS, STORE_NS, hedgeNs),
            new ObjectPipelineOptions.Calls(calls, 1, calls),
            new ObjectPipelineOptions.Bandwidth(loadBytesPerSecond, 0),
            new ObjectPipelineOptions.Breaker(4, OPEN_NS, 4 * OPEN_NS),
            new ObjectPipelineOptions.Retry(3, 10 * MS, 50 * MS, 0, saved));
    ObjectPipeline pipeline =
        new ObjectPipeline(
            new ObjectPipeline.Runners(() -> now, Runnable::run, null),
            store,
            options,
            null,
            null,
            () -> {},
            defect -> {
              throw new AssertionError(defect);
            });
    made = pipeline;
    return pipeline;
  }

  private void run(ObjectPipeline pipeline) {
    while (pipeline.step()) {}
    pipeline.collect(finished::add);
  }

  private void pass(ObjectPipeline pipeline, long ns) {
    now += ns;
    run(pipeline);
  }

  private Transfer offer(ObjectPipeline pipeline, Transfer transfer) {
    assertTrue(pipeline.offer(transfer));
    run(pipeline);
    return transfer;
  }

  private void answer(ObjectPipeline pipeline, StoreResult result) {
    store.next().call().end(result);
    run(pipeline);
  }

  private void stored(ObjectPipeline pipeline, int number) {
    offer(pipeline, transfers.store(number));
    store.answer();
    run(pipeline);
    assertEquals(Status.OK, finished.removeLast().status);
  }

  @Test
  void load_afterStore_bringsTheBlockAndWhatIsToldOfIt() {
    ObjectPipeline pipeline = pipeline(4, 0);
    stored(pipeline, 7);
    assertTrue(
        store.objects.containsKey(
            "00000000000000010000000000000002/07/07000000000000000000000000000000"),
        store.objects.keySet()::toString);
    Transfer load = offer(pipeline, transfers.load(7));
    assertEquals(List.of(), finished);
    store.answer();
    run(pipeline);
    assertEquals(List.of(load), finished);
    assertEquals(Status.OK, load.status);
    assertTrue(transfers.holds(load, 7));
    assertEquals(7, load.generation);
    assertEquals(7, load.depth);
    assertEquals(0, pipeline.inFlight());
  }

  @Test
  void load_noObject_isAMiss() {
    ObjectPipeline pipeline = pipeline(4, 0);
    Transfer load = offer(pipeline, transfers.load(7));
    store.answer();
    run(pipeline);
    assertEquals(Status.MISS, load.status);
    assertEquals(1, pipeline.count(ObjectCounter.ABSENT));
  }

  @Test
  void store_presentAlready_isFine() {
    ObjectPipeline pipeline = pipeline(4, 0);
    stored(pipeline, 7);
    stored(pipeline, 7);
    assertEquals(1, pipeline.count(ObjectCounter.PRESENT));
    assertEquals(1, pipeline.count(ObjectCounter.STORED));
  }

  @Test
  void loads_queuedBehindStores_goFirst() {
    ObjectPipeline pipeline = pipeline(1, 0);
    for (int i = 0; i < 3; i++) {
      assertTrue(pipeline.offer(transfers.store(i)));
    }
    Transfer idle = transfers.load(10);
    idle.priority = 2;
    assertTrue(pipeline.offer(idle));
    assertTrue(pipeline.offer(transfers.load(11)));
    run(pipeline);
    List<String> verbs = new ArrayList<>();
    List<String> names = new ArrayList<>();
    while (!store.asked.isEmpty()) {
      FakeStore.Asked asked = store.asked.peekFirst();
      verbs.add(asked.verb());
      names.add(asked.name().substring(33, 35));
      store.answer();
      run(pipeline);
    }
    assertEquals("0b", names.getFirst());
    assertTrue(verbs.indexOf("get") == 0 && verbs.lastIndexOf("get") <= 2, verbs::toString);
    assertEquals(5, finished.size());
  }

  @Test
  void deadline_whileCalling_cancelsTheCall() {
    ObjectPipeline pipeline = pipeline(4, 0);
    Transfer load = offer(pipeline, transfers.load(7));
    assertEquals(LOAD_NS, store.asked.getFirst().timeoutNs());
    pass(pipeline, LOAD_NS - 1);
    assertEquals(List.of(), finished);
    pass(pipeline, 1);
    assertEquals(List.of(load), finished);
    assertEquals(Status.DEADLINE, load.status);
    assertTrue(store.next().call().hasEnded());
  }

  @Test
  void deadline_whileWaiting_countsTheTimeInTheQueue() {
    ObjectPipeline pipeline = pipeline(1, 0);
    Transfer first = offer(pipeline, transfers.load(1));
    now += LOAD_NS / 2;
    Transfer second = offer(pipeline, transfers.load(2));
    pass(pipeline, LOAD_NS / 2);
    assertEquals(List.of(first), finished);
    assertEquals(LOAD_NS / 2, store.asked.getLast().timeoutNs());
    pass(pipeline, LOAD_NS / 2);
    assertEquals(List.of(first, second), finished);
    assertEquals(Status.DEADLINE, second.status);
  }

  @Test
  void unavailable_isTriedAgainAfterARest() {
    ObjectPipeline pipeline = pipeline(4, 10);
    stored(pipeline, 7);
    Transfer load = offer(pipeline, transfers.load(7));
    answer(pipeline, new StoreResult.Unavailable("reset"));
    assertEquals(0, store.asked.size());
    pass(pipeline, 10 * MS);
    store.answer();
    run(pipeline);
    assertEquals(Status.OK, load.status);
    assertEquals(1, pipeline.count(ObjectCounter.RETRIES));
  }

  @Test
  void unavailable_threeTimes_isAnError() {
    ObjectPipeline pipeline = pipeline(4, 10);
    Transfer load = offer(pipeline, transfers.load(7));
    for (int i = 0; i < 3; i++) {
      assertEquals(List.of(), finished);
      answer(pipeline, new StoreResult.Unavailable("reset"));
      pass(pipeline, 50 * MS);
    }
    assertEquals(List.of(load), finished);
    assertEquals(Status.IO_ERROR, load.status);
  }

  @Test
  void throttled_restsAsLongAsTheStoreSays() {
    ObjectPipeline pipeline = pipeline(4, 10);
    offer(pipeline, transfers.load(7));
    answer(pipeline, new StoreResult.Throttled(200 * MS));
    pass(pipeline, 200 * MS);
    assertEquals(0, store.asked.size());
    pass(pipeline, 11 * MS);
    assertEquals(1, store.asked.size());
  }

  @Test
  void throttled_beyondTheDeadline_failsAtOnce() {
    ObjectPipeline pipeline = pipeline(4, 10);
    Transfer load = offer(pipeline, transfers.load(7));
    answer(pipeline, new StoreResult.Throttled(LOAD_NS));
    assertEquals(List.of(load), finished);
    assertEquals(Status.IO_ERROR, load.status);
  }

  @Test
  void retries_beyondTheBudget_areNotMade() {
    ObjectPipeline pipeline = pipeline(8, 2);
    for (int i = 0; i < 3; i++) {
      offer(pipeline, transfers.load(i));
    }
    for (int i = 0; i < 3; i++) {
      answer(pipeline, new StoreResult.Unavailable("reset"));
    }
    assertEquals(2, pipeline.count(ObjectCounter.RETRIES));
    assertEquals(1, finished.size());
  }

  /** Four failures in a row open it. */
  private void openBreaker(ObjectPipeline pipeline) {
    for (int i = 0; i < 4; i++) {
      offer(pipeline, transfers.load(i));
      answer(pipeline, new StoreResult.Denied("403"));
      assertEquals(Status.DENIED, finished.removeLast().status);
    }
  }

  @Test
  void breaker_open_loadsAreMissesWithoutACall() {
    ObjectPipeline pipeline = pipeline(4, 10);
    openBreaker(pipeline);
    assertFalse(pipeline.reachesStore());
    Transfer load = offer(pipeline, transfers.load(9));
    assertEquals(Status.MISS, load.status);
    assertEquals(List.of(load), finished);
    assertEquals(0, store.asked.size());
    assertEquals(1, pipeline.count(ObjectCounter.KEPT_AWAY));
    assertEquals("the store refuses: 403", pipeline.loadTrouble());
    assertEquals("", pipeline.storeTrouble());
    // The other way has a breaker of its own.
    stored(pipeline, 1);
  }

  @Test
  void breaker_ofStores_failsThemAtOnce() {
    ObjectPipeline pipeline = pipeline(4, 0);
    for (int i = 0; i < 4; i++) {
      offer(pipeline, transfers.store(i));
      answer(pipeline, new StoreResult.Unavailable("down"));
    }
    Transfer next = offer(pipeline, transfers.store(9));
    assertEquals(Status.IO_ERROR, next.status);
    assertEquals(0, store.asked.size());
    assertTrue(pipeline.reachesStore());
  }

  @Test
  void breaker_halfOpen_letsOneTryAndClosesByItsSuccess() {
    ObjectPipeline pipeline = pipeline(4, 10);
    stored(pipeline, 7);
    openBreaker(pipeline);
    pass(pipeline, OPEN_NS);
    assertTrue(pipeline.reachesStore());
    Transfer tries = offer(pipeline, transfers.load(7));
    Transfer other = offer(pipeline, transfers.load(7));
    assertEquals(1, store.asked.size());
    assertEquals(Status.MISS, other.status);
    store.answer();
    run(pipeline);
    assertEquals(Status.OK, tries.status);
    assertEquals("", pipeline.loadTrouble());
    offer(pipeline, transfers.load(7));
    offer(pipeline, transfers.load(7));
    assertEquals(2, store.asked.size());
  }

  @Test
  void breaker_tryFails_staysOpenTwiceAsLong() {
    ObjectPipeline pipeline = pipeline(4, 10);
    openBreaker(pipeline);
    pass(pipeline, OPEN_NS);
    offer(pipeline, transfers.load(7));
    answer(pipeline, new StoreResult.Unavailable("still down"));
    assertEquals("still down", pipeline.loadTrouble());
    pass(pipeline, 2 * OPEN_NS - 1);
    assertFalse(pipeline.reachesStore());
    pass(pipeline, 1);
    assertTrue(pipeline.reachesStore());
    offer(pipeline, transfers.load(7));
    assertEquals(1, store.asked.size());
  }

  @Test
  void breaker_opens_whatWaitsIsNotKeptWaiting() {
    ObjectPipeline pipeline = pipeline(1, 10);
    for (int i = 0; i < 6; i++) {
      offer(pipeline, transfers.load(i));
    }
    for (int i = 0; i < 4; i++) {
      answer(pipeline, new StoreResult.Denied("403"));
    }
    assertEquals(6, finished.size());
    assertEquals(Status.MISS, finished.get(5).status);
  }

  @Test
  void cap_secondLoad_waitsUntilTheFirstIsPaid() {
    ObjectPipeline pipeline = pipeline(4, 0, BLOCK_BYTES * 10L, 0);
    offer(pipeline, transfers.load(1));
    offer(pipeline, transfers.load(2));
    assertEquals(1, store.asked.size());
    pass(pipeline, 100 * MS - 2);
    assertEquals(1, store.asked.size());
    pass(pipeline, 3);
    assertEquals(2, store.asked.size());
  }

  @Test
  void hedge_secondIsFirst_itsBytesAreTaken() {
    ObjectPipeline pipeline = pipeline(4, 10, 0, 20 * MS);
    stored(pipeline, 7);
    Transfer load = offer(pipeline, transfers.load(7));
    pass(pipeline, 20 * MS - 1);
    assertEquals(1, store.asked.size());
    pass(pipeline, 1);
    assertEquals(2, store.asked.size());
    FakeStore.Asked first = store.next();
    store.answer();
    run(pipeline);
    assertTrue(first.call().hasEnded());
    assertEquals(Status.OK, load.status);
    assertTrue(transfers.holds(load, 7));
    assertEquals(1, pipeline.count(ObjectCounter.HEDGES_WON));
  }

  @Test
  void hedge_firstIsFirst_theSecondIsCancelled() {
    ObjectPipeline pipeline = pipeline(4, 10, 0, 20 * MS);
    stored(pipeline, 7);
    Transfer load = offer(pipeline, transfers.load(7));
    pass(pipeline, 20 * MS);
    store.answer();
    run(pipeline);
    assertTrue(store.next().call().hasEnded());
    assertEquals(Status.OK, load.status);
    assertTrue(transfers.holds(load, 7));
    assertEquals(0, pipeline.count(ObjectCounter.HEDGES_WON));
  }

  @Test
  void hedge_oneFails_theOtherIsWaitedFor() {
    for (int failing = 0; failing < 2; failing++) {
      ObjectPipeline pipeline = pipeline(4, 10, 0, 20 * MS);
      stored(pipeline, 7 + failing);
      Transfer load = offer(pipeline, transfers.load(7 + failing));
      pass(pipeline, 20 * MS);
      FakeStore.Asked first = store.next();
      FakeStore.Asked second = store.next();
      (failing == 0 ? first : second).call().end(new StoreResult.Unavailable("reset"));
      run(pipeline);
      assertEquals(List.of(), finished);
      store.answer(failing == 0 ? second : first);
      run(pipeline);
      assertEquals(Status.OK, load.status);
      assertTrue(transfers.holds(load, 7 + failing));
      finished.clear();
      pipeline.close();
      made = null;
    }
  }

  @Test
  void hedges_manySlowLoads_areBoundedAndTheirMemoryIsUsedAgain() {
    ObjectPipeline pipeline = pipeline(32, 100, 0, 20 * MS);
    for (int round = 0; round < 2; round++) {
      for (int i = 0; i < 20; i++) {
        offer(pipeline, transfers.load(i));
      }
      pass(pipeline, 20 * MS);
      assertEquals(8L * (round + 1), pipeline.count(ObjectCounter.HEDGES));
      store.asked.clear();
      pass(pipeline, LOAD_NS);
      assertEquals(20, finished.size());
      finished.clear();
      pass(pipeline, 10 * OPEN_NS);
      stored(pipeline, 100 + round);
      offer(pipeline, transfers.load(100 + round));
      store.answer();
      run(pipeline);
      finished.clear();
    }
  }

  @Test
  void load_damagedObject_isCorruptAndReplacedByTheNextStore() {
    ObjectPipeline pipeline = pipeline(4, 10);
    stored(pipeline, 7);
    store.objects.values().iterator().next()[500] ^= 1;
    Transfer load = offer(pipeline, transfers.load(7));
    // At once again, aside, and then as often as anything else is tried.
    for (int i = 0; i < 4; i++) {
      assertEquals(List.of(), finished, "after " + i + " calls");
      store.answer();
      run(pipeline);
      pass(pipeline, 50 * MS);
    }
    assertEquals(List.of(load), finished);
    assertEquals(Status.CORRUPT, load.status);
    stored(pipeline, 7);
    assertEquals(0, pipeline.count(ObjectCounter.PRESENT));
    Transfer again = offer(pipeline, transfers.load(7));
    store.answer();
    run(pipeline);
    assertEquals(Status.OK, again.status);
    assertTrue(transfers.holds(again, 7));
  }

  @Test
  void load_slabIsScribbledOn_isReadAgainAsideAndTheObjectStays() {
    ObjectPipeline pipeline = pipeline(4, 10);
    stored(pipeline, 7);
    Transfer load = offer(pipeline, transfers.load(7));
    store.answer();
    // Another process writes there before anybody has looked.
    load.bytes()
        .set(ValueLayout.JAVA_BYTE, 500, (byte) ~load.bytes().get(ValueLayout.JAVA_BYTE, 500));
    run(pipeline);
    assertEquals(List.of(), finished, "what is in a slab proves nothing");
    assertEquals(0, pipeline.count(ObjectCounter.CORRUPT));
    store.answer();
    run(pipeline);
    assertEquals(Status.OK, load.status);
    assertTrue(transfers.holds(load, 7));
    stored(pipeline, 7);
    assertEquals(1, pipeline.count(ObjectCounter.PRESENT), "nobody replaces a sound object");
  }

  @Test
  void store_answeredByAbsent_opensTheBreakerAndSaysWhy() {
    ObjectPipeline pipeline = pipeline(4, 10);
    for (int i = 0; i < 32 && pipeline.takesStores(); i++) {
      Transfer put = offer(pipeline, transfers.store(i));
      answer(pipeline, new StoreResult.Absent());
      assertEquals(Status.IO_ERROR, put.status);
    }
    assertFalse(pipeline.takesStores(), "a put to nowhere is a failure of the store");
    assertTrue(pipeline.storeTrouble().contains("no such object"), pipeline.storeTrouble());
  }

  @Test
  void store_slotHasChanged_isCorruptAndPutsNothing() {
    ObjectPipeline pipeline = pipeline(4, 10);
    Transfer changed = transfers.store(7);
    changed.checksum++;
    offer(pipeline, changed);
    assertEquals(Status.CORRUPT, changed.status);
    assertEquals(0, store.asked.size());
    // Its place under way is free again.
    for (int i = 0; i < 4; i++) {
      offer(pipeline, transfers.store(i));
    }
    assertEquals(4, store.asked.size());
  }

  @Test
  void limit_storeBearsFourCalls_findsAboutThat() {
    long callNs = 10 * MS;
    ConcurrencyLimit limit = new ConcurrencyLimit(1, 1, 64, now);
    int bears = 4;
    for (int round = 0; round < 2000; round++) {
      int underWay = limit.limit();
      long took = Math.max(callNs, callNs * underWay / bears);
      now += took;
      for (int i = 0; i < underWay; i++) {
        limit.onDone(took, 1000, underWay, now);
      }
    }
    assertTrue(limit.limit() >= bears && limit.limit() <= 4 * bears, "found " + limit.limit());
  }

  @Test
  void limit_refused_isHalvedOnceForCallsOfOneTime() {
    ConcurrencyLimit limit = new ConcurrencyLimit(32, 1, 64, now);
    for (int i = 0; i < 32; i++) {
      limit.onDone(TimeUnit.MILLISECONDS.toNanos(10), 1000, 1, now);
    }
    limit.onRefused(now);
    limit.onRefused(now + MS);
    assertEquals(16, limit.limit());
    limit.onRefused(now + 35 * MS);
    assertEquals(8, limit.limit());
  }
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is written to an object store that refuses some of it, or all of it for a time. */
class ObjectMovesTest {
  private static final long SECOND_NS = 1_000_000_000L;

  private final StubObjects objects = new StubObjects();

  private IndexHarness harness(String admission) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, 8)
            .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
            .objects(objects.parts(admission)));
  }

  /** Some rounds, in which all that goes on comes to its end. */
  private static void settle(IndexHarness harness) {
    for (int round = 0; round < 8; round++) {
      int ignored = harness.agent.doWork();
    }
    harness.agent.checkInvariants();
  }

  private static IndexHarness.Answer flush(IndexHarness.Client client) throws ProtocolViolation {
    client.send(Verb.FLUSH, 0, 0, 0);
    return client.await();
  }

  @Test
  void evict_blockRefusedAWhileAgo_isOfferedAgainThoughOthersAreRefused() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      objects.answer = Status.DENIED;
      client.put(1, 0);
      settle(harness);
      harness.nowNs += 9 * SECOND_NS;
      client.put(2, 0);
      settle(harness);
      assertEquals(2, objects.asked);
      harness.nowNs += 2 * SECOND_NS;
      objects.answer = Status.OK;
      settle(harness);
      assertEquals(Status.OK, client.admin("evict 2"));
      settle(harness);
      assertEquals(3, objects.asked);
      assertEquals(1, harness.counters.get(Counter.OBJECT_STORED));
      assertEquals(1, harness.counters.get(Counter.DROPPED), "the one that was refused just now");
    }
  }

  @Test
  void evict_blockThatIsAnObject_leavesWhenTheStoreHasSaidSo() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      client.put(1, 0);
      settle(harness);
      assertEquals(1, objects.asked);
      objects.head = new StoreResult.Done(1);
      assertEquals(Status.OK, client.admin("evict 1"));
      settle(harness);
      assertEquals(Status.OK, client.admin("evict 1"));
      settle(harness);
      assertEquals(1, objects.heads, "asked once");
      assertEquals(1, objects.asked, "and not stored again");
      assertEquals(1, harness.counters.get(Counter.EVICTIONS));
      assertEquals(0, harness.counters.get(Counter.DROPPED));
    }
  }

  @Test
  void evict_objectDeletedBehindTheDaemon_isStoredAgainAndNotLost() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      client.put(1, 0);
      settle(harness);
      assertEquals(1, objects.asked);
      objects.head = new StoreResult.Absent();
      for (int i = 0; i < 3; i++) {
        assertEquals(Status.OK, client.admin("evict 1"));
        settle(harness);
      }
      assertEquals(2, objects.asked, "the block was in memory all the time");
      assertEquals(1, harness.counters.get(Counter.EVICTIONS));
      assertEquals(0, harness.counters.get(Counter.DROPPED));
    }
  }

  @Test
  void evict_storeDoesNotSay_believesWhatIsKnown() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      client.put(1, 0);
      settle(harness);
      objects.head = new StoreResult.Unavailable("a test");
      assertEquals(Status.OK, client.admin("evict 1"));
      settle(harness);
      assertEquals(1, harness.counters.get(Counter.EVICTIONS), "memory waits for no store");
      assertEquals(0, harness.counters.get(Counter.DROPPED));
    }
  }

  @Test
  void evict_uploadsMustWait_whatSsdRefusedIsCountedOnce() throws Exception {
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 8)
                .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
                .ssd(1, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
                .admission("frequency")
                .objects(objects.parts("evicted")))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      for (int key = 0; key < 24; key++) {
        client.put(key, 0);
        settle(harness);
      }
      objects.pipeline.holds = transfer -> true;
      int asked = objects.asked;
      client.sendKeys(Verb.RESERVE, 100, 8);
      settle(harness);
      long refused = harness.counters.get(Counter.NOT_ADMITTED);
      assertTrue(refused > 0 && objects.asked > asked, "uploads are under way");
      for (int i = 0; i < 10; i++) {
        settle(harness);
      }
      assertEquals(refused, harness.counters.get(Counter.NOT_ADMITTED), "nothing more has left");
    }
  }

  @Test
  void release_corrupt_damagedBlockThatIsAnObject_isNotCountedAsDropped() throws Exception {
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 8)
                .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                .objects(objects.parts("all")))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      for (Status stored : List.of(Status.OK, Status.DENIED)) {
        objects.answer = stored;
        client.put(1, 12345);
        settle(harness);
        client.sendKeys(Verb.ACQUIRE, 1, 1);
        long lease = client.work().ids().getFirst();
        client.sendIds(Verb.RELEASE, RequestDescriptor.FLAG_CORRUPT, 1, lease);
        assertEquals(Status.OK, client.await().first());
        settle(harness);
        int dropped = stored == Status.OK ? 0 : 1;
        assertEquals(dropped, harness.counters.get(Counter.DROPPED));
        assertTrue(client.stats().contains("\"damaged\":" + dropped));
      }
    }
  }

  @Test
  void acquire_damagedOnSsdAndNoObject_isCountedAsDamaged() throws Exception {
    for (Status read : List.of(Status.CORRUPT, Status.IO_ERROR)) {
      try (IndexHarness harness =
          new IndexHarness(
              new IndexHarness.Settings(1, 8)
                  .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
                  .ssd(
                      1,
                      new IndexHarness.InlinePipeline(transfer ->
                          transfer.status = transfer.kind == Transfer.Kind.LOAD ? read : Status.OK))
                  .admission("all")
                  .objects(objects.parts("all")))) {
        IndexHarness.Client client = harness.open(1 << 20);
        client.register();
        client.put(1, 0);
        settle(harness);
        assertEquals(1, harness.counters.get(Counter.OBJECT_STORED));
        assertEquals(Status.OK, client.admin("evict 1"));
        client.sendKeys(Verb.ACQUIRE, 1, 1);
        assertEquals(Status.MISS, client.await().first());
        String reason = read == Status.CORRUPT ? "damaged" : "unreadable";
        assertTrue(client.stats().contains("\"" + reason + "\":1"), client.stats());
        settle(harness);
      }
    }
  }

  @Test
  void flush_storeThatRefuses_endsAndAsksAgainWhenItIsMended() throws Exception {
    try (IndexHarness harness = harness("evicted")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      for (int key = 0; key < 6; key++) {
        client.put(key, 0);
      }
      objects.answer = Status.DENIED;
      assertEquals(Status.IO_ERROR, flush(client).status());
      assertEquals(6, objects.asked, "each block once");
      objects.answer = Status.OK;
      IndexHarness.Answer flushed = flush(client);
      assertEquals(Status.OK, flushed.status());
      assertEquals(6, flushed.value());
      assertEquals(Status.OK, flush(client).status());
      assertEquals(12, objects.asked, "what is an object is not written again");
    }
  }

  @Test
  void delete_anotherIsDeletedDuringItsUpload_doesNotWaitForThat() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      objects.pipeline.holds = transfer -> true;
      client.put(1, 0);
      client.put(2, 0);
      settle(harness);
      assertEquals(2, objects.asked);
      client.sendKeys(Verb.DELETE, 1, 1);
      settle(harness);
      client.sendKeys(Verb.DELETE, 2, 1);
      settle(harness);
      assertFalse(client.hasAnswer(), "its object is being written");
      objects.pipeline.endFirst();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().first());
      assertFalse(client.hasAnswer());
      objects.pipeline.endFirst();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().first());
    }
  }

  @Test
  void delete_damagedOnSsdAndBeingFetched_isNotCountedAsDropped() throws Exception {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer ->
            transfer.status = transfer.kind == Transfer.Kind.LOAD ? Status.CORRUPT : Status.OK);
    for (boolean isDeleted : new boolean[] {true, false}) {
      try (IndexHarness harness =
          new IndexHarness(
              new IndexHarness.Settings(1, 8)
                  .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
                  .ssd(1, ssd)
                  .admission("all")
                  .objects(objects.parts("all")))) {
        IndexHarness.Client client = harness.open(1 << 20);
        client.register();
        objects.pipeline.holds = transfer -> transfer.kind == Transfer.Kind.LOAD;
        client.put(1, 0);
        settle(harness);
        assertEquals(Status.OK, client.admin("evict 1"));
        client.sendKeys(Verb.ACQUIRE, 1, 1);
        settle(harness);
        assertEquals(1, objects.pipeline.inFlight());
        if (isDeleted) {
          client.sendKeys(Verb.DELETE, 1, 1);
          settle(harness);
        }
        objects.pipeline.end();
        settle(harness);
        assertTrue(client.hasAnswer());
        assertEquals(Status.MISS, client.take().first());
        assertEquals(isDeleted ? 0 : 1, harness.counters.get(Counter.DROPPED));
      }
    }
  }

  /** A block that is an object and nothing else, of which that is known. */
  private void storeAway(IndexHarness harness, IndexHarness.Client client, long key)
      throws ProtocolViolation {
    client.put(key, 0);
    settle(harness);
    // Before it leaves the store is asked, so that it is known to be there.
    objects.head = new StoreResult.Done(0);
    assertEquals(Status.OK, client.admin("evict 1"));
    settle(harness);
    assertEquals(1, harness.counters.get(Counter.EVICTIONS));
    assertEquals(Status.OK, client.lookup(key).first());
  }

  /** Neither lookups nor gets find it, and no object was ever read. */
  private void assertGone(IndexHarness.Client client, long key) throws ProtocolViolation {
    assertEquals(Status.MISS, client.lookup(key).first());
    assertEquals(Status.MISS, client.ask(Verb.ACQUIRE, key));
    assertEquals(0, objects.loads);
  }

  @Test
  void clear_whileTheObjectsGo_noneIsFoundOrFetched() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      storeAway(harness, client, 1);
      objects.deletions.isHeld = true;
      client.send(Verb.CLEAR, 0, 0, 0);
      settle(harness);
      assertFalse(client.hasAnswer(), "its objects have not gone");
      assertGone(client, 1);
      objects.deletions.end();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().status());
    }
  }

  @Test
  void delete_objectThatIsSeenMeanwhile_isGoneFromTheFirstMomentOn() throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      storeAway(harness, client, 1);
      objects.deletions.isHeld = true;
      client.sendKeys(Verb.DELETE, 1, 1);
      settle(harness);
      assertFalse(client.hasAnswer(), "its object has not gone");
      objects.seeLookedFor();
      assertGone(client, 1);
      objects.deletions.end();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().first());
      assertEquals(Status.MISS, client.lookup(1).first());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void put_againWhileTheDeletedOneIsWritten_waitsForThatOnesDeletion(boolean isFull)
      throws Exception {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      objects.pipeline.holds = transfer -> true;
      client.put(1, 0);
      settle(harness);
      assertEquals(1, objects.asked);
      client.sendKeys(Verb.DELETE, 1, 1);
      client.put(1, 0);
      settle(harness);
      assertEquals(1, objects.asked, "its object would be deleted with the other's");
      objects.deletions.isHeld = true;
      objects.deletions.isFull = isFull;
      objects.pipeline.endFirst();
      settle(harness);
      assertEquals(1, objects.asked, "the other's object has not gone");
      objects.deletions.isFull = false;
      settle(harness);
      assertEquals(1, objects.asked, "nor now");
      objects.deletions.end();
      settle(harness);
      assertEquals(2, objects.asked);
    }
  }
}

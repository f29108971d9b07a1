package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import org.junit.jupiter.api.Test;

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
      objects.holds = true;
      client.put(1, 0);
      client.put(2, 0);
      settle(harness);
      assertEquals(2, objects.asked);
      client.sendKeys(Verb.DELETE, 1, 1);
      settle(harness);
      client.sendKeys(Verb.DELETE, 2, 1);
      settle(harness);
      assertFalse(client.hasAnswer(), "its object is being written");
      objects.end();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().first());
      assertFalse(client.hasAnswer());
      objects.end();
      settle(harness);
      assertTrue(client.hasAnswer());
      assertEquals(Status.OK, client.take().first());
    }
  }
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Requests at the edges of what is allowed: none of them may end the daemon or stop another client.
 */
class IndexLimitsTest {
  @Test
  void unregister_impossibleNamespace_isUnknown() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client client = harness.open();
      for (int nonsense : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 7}) {
        client.send(Verb.UNREGISTER, nonsense, 0, 0);
        assertEquals(Status.NAMESPACE_UNKNOWN, client.work().status());
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void register_allThatThereCanBe_thoseThatNobodyUsesMakeRoom()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client greedy = harness.open();
      greedy.register();
      greedy.put(7, 0);
      for (int i = 1; i < Namespaces.NAMESPACES_MAX; i++) {
        assertEquals(Status.OK, greedy.registerAs("n" + i, IndexHarness.SLOT_BYTES).status());
      }
      IndexHarness.Client other = harness.open();
      assertEquals(
          Status.INVALID_ARGUMENT, other.registerAs("new", IndexHarness.SLOT_BYTES).status());
      assertEquals(5, other.registerAs("n5", IndexHarness.SLOT_BYTES).value());
      harness.close(greedy);
      harness.nowNs += 1_000_000_000;
      // The number of the forgotten namespace names nothing: its id is another namespace's.
      long numberOfNew = other.registerAs("new", IndexHarness.SLOT_BYTES).value();
      assertEquals(Namespaces.NAMESPACES_MAX + 1, numberOfNew);
      other.send(Verb.UNREGISTER, 1, 0, 0);
      assertEquals(Status.NAMESPACE_UNKNOWN, other.work().status());
      // A namespace that has blocks, or a session, stays as it was.
      assertEquals(0, other.registerAs("test", IndexHarness.SLOT_BYTES).value());
      assertEquals(Status.OK, other.ask(Verb.ACQUIRE, 7));
      assertEquals(5, other.registerAs("n5", IndexHarness.SLOT_BYTES).value());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void register_allSizesThatThereCanBe_thoseThatNobodyUsesMakeRoom()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(128, 0)) {
      IndexHarness.Client greedy = harness.open();
      greedy.register();
      greedy.put(7, 0);
      for (int i = 2; i <= SlotAllocator.CLASSES_MAX; i++) {
        assertEquals(
            Status.OK, greedy.registerAs("n" + i, (long) i * IndexHarness.SLOT_BYTES).status());
      }
      IndexHarness.Client other = harness.open();
      long another = 100L * IndexHarness.SLOT_BYTES;
      assertEquals(Status.INVALID_ARGUMENT, other.registerAs("new", another).status());
      harness.close(greedy);
      harness.nowNs += 1_000_000_000;
      assertEquals(Status.OK, other.registerAs("new", another).status());
      assertEquals(0, other.registerAs("test", IndexHarness.SLOT_BYTES).value());
      assertEquals(Status.OK, other.ask(Verb.ACQUIRE, 7));
      harness.agent.checkInvariants();
    }
  }

  @Test
  void request_parentWithoutKeys_endsTheSession() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      for (Verb verb : new Verb[] {Verb.COMMIT, Verb.REGISTER, Verb.FLUSH}) {
        IndexHarness.Client client = harness.open();
        client.sendFlags(verb, RequestDescriptor.FLAG_PARENT, 255);
        int ignored = harness.agent.doWork();
        assertFalse(client.hasAnswer());
        assertEquals(Status.INVALID_ARGUMENT, client.endReason());
      }
    }
  }

  @Test
  void request_ofAShard_isRefused_andTheSessionGoesOn() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();
      client.sendPingWith(RequestDescriptor.SHARD_OFFSET, 3);
      assertEquals(Status.INVALID_ARGUMENT, client.work().status());
      client.sendPingWith(RequestDescriptor.SHARD_OFFSET, 0);
      assertEquals(Status.OK, client.work().status());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 4, 8, 12, 16, 20, 24})
  void request_withSomethingInItsReservedBytes_endsTheSession(int place)
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();
      client.sendPingWith(RequestDescriptor.RESERVED_OFFSET + place, 1);
      int ignored = harness.agent.doWork();
      assertFalse(client.hasAnswer());
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }

  @Test
  void commit_moreThanTheQueueOfTheCopyPipeline_allWait() throws IOException, ProtocolViolation {
    int blocks = (1 << 16) + Protocol.KEYS_MAX;
    try (IndexHarness harness = new IndexHarness(blocks, 0)) {
      IndexHarness.Client client = harness.open(4 * Protocol.RING_BYTES_DEFAULT);
      client.register();
      for (int first = 0; first < blocks; first += Protocol.KEYS_MAX) {
        client.sendKeys(Verb.RESERVE, first, Protocol.KEYS_MAX);
        IndexHarness.Answer reserved = client.work();
        assertEquals(Protocol.KEYS_MAX, reserved.ids().size());
        long[] ids = reserved.ids().stream().mapToLong(Long::longValue).toArray();
        client.send(Verb.COMMIT, 0, 0, ids.length, ids);
        int ignored = harness.agent.doWork();
        while (client.hasAnswer()) {
          assertEquals(Verb.COMMIT, client.take().verb());
        }
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void reserve_waitsForASlotInVain_isRefusedByItsDeadlineOnly()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client holder = harness.open();
      holder.register();
      holder.sendKeys(Verb.RESERVE, 0, 8);
      assertEquals(8, holder.work().ids().size());
      IndexHarness.Client client = harness.open();
      client.register();
      client.sendKeys(Verb.RESERVE, 100, 2);
      client.send(Verb.CANCEL, 0, 0, 0);
      assertEquals(Status.CANCELLED, client.work().first());
      assertEquals(Status.OK, client.take().status());
      assertEquals(0, harness.counters.get(Counter.PUT_BUSY));

      client.sendKeys(Verb.RESERVE, 100, 2);
      int ignored = harness.agent.doWork();
      harness.nowNs += 6_000_000_000L;
      assertEquals(Status.DEADLINE, client.work().first());
      assertEquals(2, harness.counters.get(Counter.PUT_BUSY));

      client.sendKeys(Verb.RESERVE, 100, 2);
      ignored = harness.agent.doWork();
      harness.close(client);
      assertEquals(2, harness.counters.get(Counter.PUT_BUSY));
      harness.agent.checkInvariants();
    }
  }

  @Test
  void request_drainedCompletionRing_isTakenAlthoughAnotherStillWaits()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(Protocol.KEYS_MAX, 0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      // The pipeline does not finish a commit, and two gets wait for it: the space of their answers
      // stays promised.
      client.sendKeys(Verb.RESERVE, 0, 1);
      long id = client.work().ids().getFirst();
      client.send(Verb.COMMIT, 0, 0, 1, id);
      client.sendKeys(Verb.ACQUIRE, 0, Protocol.KEYS_MAX);
      client.sendKeys(Verb.ACQUIRE, 0, Protocol.KEYS_MAX);
      int ignored = harness.agent.doWork();
      assertFalse(client.hasAnswer());
      // The client has read all answers since then: there is room for one more.
      for (int round = 0; round < 8; round++) {
        client.sendKeys(Verb.ACQUIRE, 1_000_000, Protocol.KEYS_MAX);
        assertEquals(Verb.ACQUIRE, client.work().verb(), "round " + round);
      }
    }
  }

  @Test
  void hasWork_oneClientReadsNothing_othersAreStillLookedAt()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client deaf = harness.open();
      deaf.register();
      IndexHarness.Client other = harness.open();
      for (int i = 0; i < 12; i++) {
        deaf.sendKeys(Verb.ACQUIRE, 0, 1024);
      }
      int work = 1;
      while (work > 0) {
        work = harness.agent.doWork();
      }
      assertFalse(harness.agent.hasWork(), "nothing to do until the deaf client reads");
      other.send(Verb.PING, 0, 0, 0);
      assertTrue(harness.agent.hasWork(), "the other client's request");
      assertEquals(Status.OK, other.work().status());
      assertFalse(harness.agent.hasWork());
    }
  }
}

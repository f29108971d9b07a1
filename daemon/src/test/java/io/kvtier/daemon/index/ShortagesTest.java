package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Gets of more blocks than the host tier, of eight slots, has room for. */
class ShortagesTest {
  private static final int SLOTS = 8;

  private final IndexHarness.InlinePipeline ssd =
      new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);

  private IndexHarness harness(IndexHarness.Settings settings) throws IOException {
    return new IndexHarness(
        settings
            .blocks(256)
            .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
            .ssd(8, ssd)
            .admission("all"));
  }

  private IndexHarness harness() throws IOException {
    return harness(new IndexHarness.Settings(1, SLOTS));
  }

  /** Some rounds, in which all that the daemon does by itself comes to its end. */
  private static void rounds(IndexHarness harness) {
    for (int i = 0; i < 40; i++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  /** Nothing moves for as long as it takes until that is noticed. */
  private static void standStill(IndexHarness harness) {
    harness.nowNs += Limits.STANDSTILL_NS;
    rounds(harness);
  }

  /** A client whose blocks, from 0 on, are on SSD only. */
  private static IndexHarness.Client stored(IndexHarness harness, int blocks)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open(1 << 20);
    client.register();
    for (int key = 0; key < blocks; key++) {
      client.put(key, 0);
      rounds(harness);
    }
    assertEquals(Status.OK, client.admin("evict 100"));
    rounds(harness);
    return client;
  }

  private static IndexHarness.Answer taken(IndexHarness.Client client) throws ProtocolViolation {
    assertTrue(client.hasAnswer());
    return client.take();
  }

  private static IndexHarness.Answer release(IndexHarness.Client client, List<Long> leases)
      throws ProtocolViolation {
    long[] ids = leases.stream().mapToLong(Long::longValue).toArray();
    client.sendIds(Verb.RELEASE, 0, ids.length, ids);
    return client.work();
  }

  @Test
  void acquire_moreThanMemory_isAnsweredWithWhatFits() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = stored(harness, 20);
      client.sendKeys(Verb.ACQUIRE, 0, 20);
      rounds(harness);
      assertFalse(client.hasAnswer(), "others may give something back in a moment");
      standStill(harness);
      IndexHarness.Answer answer = taken(client);
      assertEquals(SLOTS, answer.run());
      assertEquals(SLOTS, answer.ids().size());
      assertEquals(20 - SLOTS, harness.counters.get(Counter.ACQUIRE_BUSY));
      assertTrue(harness.agent.isIdle(), "nobody waits any more");
      assertEquals(Status.OK, release(client, answer.ids()).first());
      client.sendKeys(Verb.ACQUIRE, SLOTS, SLOTS);
      assertEquals(SLOTS, client.await().run(), "the rest fits when it is asked for again");
    }
  }

  @Test
  void acquire_memoryHasTheEndOnly_isLoadedFromTheBeginning() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = stored(harness, 20);
      client.sendKeys(Verb.ACQUIRE, 12, SLOTS);
      IndexHarness.Answer end = client.await();
      assertEquals(SLOTS, end.run());
      assertEquals(Status.OK, release(client, end.ids()).first());
      client.sendKeys(Verb.ACQUIRE, 0, 20);
      rounds(harness);
      standStill(harness);
      IndexHarness.Answer answer = taken(client);
      assertEquals(SLOTS, answer.run());
      assertEquals(SLOTS, answer.ids().size(), "nothing behind the run is held");
    }
  }

  @Test
  void acquire_severalThatDoNotFitTogether_noneWaitsForAnother() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client first = stored(harness, 20);
      IndexHarness.Client second = harness.open(1 << 20);
      second.register();
      IndexHarness.Client third = harness.open(1 << 20);
      third.register();
      first.sendKeys(Verb.ACQUIRE, 0, 6);
      int ignored = harness.agent.doWork();
      second.sendKeys(Verb.ACQUIRE, 6, 6);
      third.sendKeys(Verb.ACQUIRE, 12, 6);
      assertEquals(6, first.await().run(), "who came first has all of it");
      standStill(harness);
      assertEquals(2, taken(second).run());
      assertEquals(0, taken(third).run());
    }
  }

  @Test
  void acquire_othersGiveBackInTime_getsAll() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client first = stored(harness, 20);
      IndexHarness.Client second = harness.open(1 << 20);
      second.register();
      first.sendKeys(Verb.ACQUIRE, 0, SLOTS);
      List<Long> leases = first.await().ids();
      second.sendKeys(Verb.ACQUIRE, SLOTS, 4);
      for (int i = 0; i < 4; i++) {
        harness.nowNs += Limits.STANDSTILL_NS - 2_000_000;
        rounds(harness);
        assertFalse(second.hasAnswer());
        assertEquals(Status.OK, release(first, List.of(leases.get(i))).first());
        rounds(harness);
      }
      assertEquals(4, taken(second).run());
    }
  }

  @Test
  void acquire_roomIsBeingMade_waitsForIt() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = stored(harness, 4);
      ssd.holds = transfer -> transfer.kind == Transfer.Kind.STORE;
      for (int key = 100; key < 100 + SLOTS; key++) {
        client.put(key, 0);
      }
      client.sendKeys(Verb.ACQUIRE, 0, 4);
      for (int i = 0; i < 4; i++) {
        standStill(harness);
      }
      assertFalse(client.hasAnswer(), "the blocks in memory are being written");
      ssd.holds = transfer -> false;
      ssd.end();
      rounds(harness);
      assertEquals(4, taken(client).run());
    }
  }

  @Test
  void acquire_loadsTakeLong_areNoShortage() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = stored(harness, SLOTS);
      ssd.holds = transfer -> transfer.kind == Transfer.Kind.LOAD;
      client.sendKeys(Verb.ACQUIRE, 0, SLOTS);
      for (int i = 0; i < 4; i++) {
        standStill(harness);
      }
      assertFalse(client.hasAnswer());
      ssd.end();
      assertEquals(SLOTS, client.await().run());
    }
  }

  @Test
  void acquire_sameBlocksAsAnotherThatComesLater_eachHasItsOwnTime() throws Exception {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client first = stored(harness, 20);
      IndexHarness.Client second = harness.open(1 << 20);
      second.register();
      first.sendKeys(Verb.ACQUIRE, 0, 12);
      rounds(harness);
      harness.nowNs += Limits.STANDSTILL_NS / 2;
      second.sendKeys(Verb.ACQUIRE, SLOTS, 4);
      rounds(harness);
      harness.nowNs += Limits.STANDSTILL_NS / 2;
      rounds(harness);
      assertEquals(SLOTS, taken(first).run());
      assertFalse(second.hasAnswer());
      standStill(harness);
      assertEquals(0, taken(second).run());
      assertTrue(harness.agent.isIdle());
    }
  }

  @Test
  void acquire_anotherTenantHoldsItsOwn_isNoShortage() throws Exception {
    try (IndexHarness harness =
        harness(
            new IndexHarness.Settings(2, SLOTS)
                .tenants(new TenantConfig("blue", List.of(), List.of(), 1, 4, 1)))) {
      IndexHarness.Client red = stored(harness, 20);
      IndexHarness.Client blue = harness.open(1 << 20, new Grant("blue", Role.WRITE, 1));
      assertEquals(Status.OK, blue.registerAs("blue", IndexHarness.SLOT_BYTES).status());
      red.sendKeys(Verb.ACQUIRE, 0, 12);
      rounds(harness);
      blue.sendKey(Verb.RESERVE, 1, 1);
      assertEquals(1, blue.await().ids().size());
      standStill(harness);
      assertEquals(SLOTS, taken(red).run());
    }
  }
}

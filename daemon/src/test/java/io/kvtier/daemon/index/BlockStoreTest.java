package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/** How blocks leave, and what becomes of damaged ones. */
class BlockStoreTest {
  private static final int SLOTS = 72;

  /** How many small blocks there is room for where there is room for one as large as a slab. */
  private static final int SMALL = 2048;

  private static final int CHECKSUM = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  private static IndexHarness harness(int files, Status ofStores) throws IOException {
    return harness(files, ofStores, "evicted");
  }

  private static IndexHarness harness(int files, Status ofStores, String admission)
      throws IOException {
    return new IndexHarness(
        settings(2)
            .ssd(files, new IndexHarness.InlinePipeline(transfer -> transfer.status = ofStores))
            .admission(admission));
  }

  private static IndexHarness.Settings settings(int slabs) {
    return new IndexHarness.Settings(slabs, SLOTS)
        .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0);
  }

  @Test
  void ssd_asManySlotsAsThereAreNumbers_isThere() throws IOException, ProtocolViolation {
    int slots = 1 << 13;
    // A file has two slots for one of a slab.
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, slots)
                .blocks(64)
                .ssd((1 << 30) / slots, new IndexHarness.NoPipeline()))) {
      IndexHarness.Client client = harness.open();
      client.register();
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 1));
    }
  }

  @Test
  void put_fewerRecordsThanSlots_coldestGoes() throws IOException, ProtocolViolation {
    for (int files : new int[] {0, 2}) {
      try (IndexHarness harness =
          new IndexHarness(
              settings(2)
                  .blocks(SLOTS)
                  .ssd(
                      files,
                      new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK)))) {
        IndexHarness.Client client = harness.open();
        client.register();
        for (int key = 0; key < 4 * SLOTS; key++) {
          client.put(key, CHECKSUM);
          harness.agent.checkInvariants();
        }
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, 3 * SLOTS));
        assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 3 * SLOTS - 1));
      }
    }
  }

  @Test
  void put_fewerRecordsThanSlots_whatIsUsedInMemoryIsNotColdOnSsd() throws Exception {
    int hot = SLOTS - 2;
    int cold = 2 * SLOTS;
    // All is on SSD as well, and what is hot came there first.
    try (IndexHarness harness =
        new IndexHarness(
            settings(1)
                .blocks(hot + cold)
                .ssd(4, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
                .admission("all"))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      for (int key = 0; key < hot + cold + SLOTS; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
        for (int used = 0; used < Math.min(key, hot); used++) {
          client.sendKeys(Verb.ACQUIRE, used, 1);
          IndexHarness.Answer leased = client.work();
          assertEquals(Status.OK, leased.first(), "hot " + used + " after " + key);
          client.sendIds(Verb.RELEASE, 0, 1, leased.ids().getFirst());
          assertEquals(Status.OK, client.work().first());
        }
      }
      for (int key = 0; key < hot + cold + SLOTS; key++) {
        Status expected = key >= hot && key < hot + SLOTS ? Status.MISS : Status.OK;
        assertEquals(expected, client.ask(Verb.LOOKUP, key), "key " + key);
      }
    }
  }

  @Test
  void stats_drained_sayIt() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(settings(2))) {
      IndexHarness.Client client = harness.open(1 << 20);
      assertTrue(client.stats().contains("\"draining\":false,"));
      assertEquals(Status.OK, client.admin("drain on"));
      assertTrue(client.stats().contains("\"draining\":true,"));
    }
  }

  @Test
  void stats_rateOfReadingChanged_isTheOneInForce() throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(
            settings(2)
                .ssd(2, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
                .scrubbing(4096))) {
      IndexHarness.Client client = harness.open(1 << 20);
      assertTrue(client.stats().contains("\"scrub_bytes_per_second\":4096,"));
      assertEquals(Status.OK, client.admin("set ssd.scrub_bytes_per_second 12345"));
      assertTrue(client.stats().contains("\"scrub_bytes_per_second\":12345,"));
    }
  }

  @Test
  void scrub_blockThatCannotBeRead_isNotVerified() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer ->
            transfer.status = transfer.kind == Transfer.Kind.LOAD ? Status.IO_ERROR : Status.OK);
    try (IndexHarness harness =
        new IndexHarness(settings(1).ssd(1, ssd).admission("all").scrubbing(1 << 20))) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      for (int i = 0; i < 10; i++) {
        harness.nowNs += 100_000_000;
        rounds(harness);
      }
      assertTrue(harness.counters.get(Counter.IO_ERRORS) > 0, "it is read");
      assertEquals(0, harness.counters.get(Counter.SCRUBBED));
    }
  }

  @Test
  void scrub_smallBlocks_countAs64KiB() throws IOException, ProtocolViolation {
    int[] reads = new int[1];
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> {
          reads[0] += transfer.kind == Transfer.Kind.LOAD ? 1 : 0;
          transfer.status = Status.OK;
        });
    try (IndexHarness harness =
        new IndexHarness(settings(1).ssd(1, ssd).admission("all").scrubbing(1 << 20))) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      rounds(harness);
      reads[0] = 0;
      for (int i = 0; i < 1_000; i++) {
        harness.nowNs += 1_000_000;
        rounds(harness);
      }
      assertTrue(reads[0] > 8 && reads[0] <= 17, reads[0] + " reads in a second");
    }
  }

  @Test
  void policy_anotherOfOtherSize_indexBytesFollow() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1, Status.OK)) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      int ignored = harness.agent.doWork();
      long ofLru = harness.counters.get(Counter.GAUGE_INDEX_BYTES);
      assertTrue(ofLru > 0);
      assertEquals(Status.OK, client.admin("policy host lfu"));
      harness.nowNs += 1_000_000_000L;
      ignored = harness.agent.doWork();
      long ofLfu = harness.counters.get(Counter.GAUGE_INDEX_BYTES);
      assertTrue(ofLfu > ofLru, ofLfu + " bytes");
      assertEquals(Status.OK, client.admin("admission ssd frequency"));
      harness.nowNs += 1_000_000_000L;
      ignored = harness.agent.doWork();
      assertTrue(harness.counters.get(Counter.GAUGE_INDEX_BYTES) > ofLfu);
    }
  }

  @Test
  void admission_all_writesThrough() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(4, Status.OK, "all")) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 20; key++) {
        client.put(key, CHECKSUM);
      }
      rounds(harness);
      assertEquals(20, harness.counters.get(Counter.DEMOTIONS));
      assertEquals(0, harness.counters.get(Counter.EVICTIONS));
    }
  }

  @Test
  void admission_hot_writesWhatWasUsedTwice() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(4, Status.OK, "hot")) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 20; key++) {
        client.put(key, CHECKSUM);
      }
      for (int use = 0; use < 3; use++) {
        client.sendKeys(Verb.ACQUIRE, 7, 1);
        assertEquals(1, client.work().ids().size());
      }
      rounds(harness);
      assertEquals(1, harness.counters.get(Counter.DEMOTIONS));
    }
  }

  @Test
  void admission_frequency_refusesWhatWasSeenOnceWhenTheTierIsFull()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1, Status.OK, "frequency")) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 2 * SLOTS + 20; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      assertEquals(0, harness.counters.get(Counter.NOT_ADMITTED), "there was room");
      for (int key = 0; key < 3 * SLOTS; key++) {
        client.put(100_000 + key, CHECKSUM);
        rounds(harness);
      }
      // The file has a slot for each that came while there was room; hardly any was replaced (the
      // sketch may count two keys as one).
      assertTrue(harness.counters.get(Counter.DEMOTIONS) <= SLOTS + 4);
      assertTrue(harness.counters.get(Counter.NOT_ADMITTED) >= SLOTS);
    }
  }

  @Test
  void policy_swappedWhileBlocksArePinned_losesNothing() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < SLOTS; key++) {
        client.put(key, CHECKSUM);
        assertEquals(Status.OK, key % 3 == 0 ? client.ask(Verb.PIN, key) : Status.OK);
      }
      for (String policy : EvictionPolicies.names()) {
        assertEquals(Status.OK, client.admin("policy host " + policy), policy);
        harness.agent.checkInvariants();
        for (int key = 0; key < SLOTS; key++) {
          assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), policy);
        }
      }
      assertEquals(Status.INVALID_ARGUMENT, client.admin("policy host mru"));
      assertEquals(Status.INVALID_ARGUMENT, client.admin("policy attic lru"));
      assertEquals(Status.INVALID_ARGUMENT, client.admin("make coffee"));
      for (int more = 0; more < 2 * SLOTS; more++) {
        client.put(1_000 + more, CHECKSUM);
      }
      for (int key = 0; key < SLOTS; key += 3) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), "pinned " + key);
      }
    }
  }

  private static void rounds(IndexHarness harness) {
    for (int round = 0; round < 10; round++) {
      int ignored = harness.agent.doWork();
    }
  }

  @Test
  void put_manyPinnedBlocksAtTheColdEnd_evictsOneBlock() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      int pinned = 66;
      for (int key = 0; key < 2 * SLOTS; key++) {
        client.put(key, CHECKSUM);
        if (key < pinned) {
          assertEquals(Status.OK, client.ask(Verb.PIN, key));
        }
      }
      for (int more = 1; more <= 10; more++) {
        client.put(1_000 + more, CHECKSUM);
        assertEquals(more, harness.counters.get(Counter.EVICTIONS));
      }
      for (int key = 0; key < pinned; key++) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key));
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void put_allPinned_isBusyWithoutDraining() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 2 * SLOTS; key++) {
        client.put(key, CHECKSUM);
        assertEquals(Status.OK, client.ask(Verb.PIN, key));
      }
      client.sendKeys(Verb.RESERVE, 9_999, 1);
      int ignored = harness.agent.doWork();
      assertEquals(Status.OK, client.ask(Verb.UNPIN, 7));
      assertEquals(1, client.work().ids().size(), "the slot of the block that was unpinned");
      assertEquals(1, harness.counters.get(Counter.EVICTIONS));
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 7));
    }
  }

  @Test
  void drain_ofTwoRegions_isOfTheOneWithFarFewerBytes() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.registerLarger();
      for (int key = 0; key < 2 * SLOTS; key++) {
        client.put(key, CHECKSUM);
      }
      for (int key = SLOTS + 2; key < 2 * SLOTS; key++) {
        assertEquals(Status.OK, client.ask(Verb.DELETE, key));
      }
      client.sendKey(Verb.RESERVE, 1, 7);
      assertEquals(1, client.await().ids().size());
      for (int key = 0; key < SLOTS; key++) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), "of the full slab, however cold");
      }
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, SLOTS));
      harness.agent.checkInvariants();
    }
  }

  @Test
  void put_fewColdBlocksOfAnotherSize_giveTheirRegionUp() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.registerLarger();
      client.sendKey(Verb.RESERVE, 1, 7);
      client.sendIds(Verb.COMMIT, 0, 1, client.await().ids().getFirst());
      assertEquals(Status.OK, client.await().status());
      for (int key = 0; key < 4 * SLOTS; key++) {
        client.put(key, CHECKSUM);
      }
      int found = 0;
      for (int key = 0; key < 4 * SLOTS; key++) {
        found += client.ask(Verb.LOOKUP, key) == Status.OK ? 1 : 0;
      }
      assertEquals(2 * SLOTS, found, "both slabs are theirs");
      harness.agent.checkInvariants();
    }
  }

  /** An index whose slabs and files have room for many small blocks, or for one or two others. */
  private static IndexHarness ofBlocksOfASlab(int slabs, int files) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(slabs, SMALL)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .ssd(files, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
            .admission("all"));
  }

  private static void putLarge(IndexHarness harness, IndexHarness.Client client, int key)
      throws ProtocolViolation {
    client.sendKey(Verb.RESERVE, 1, key);
    client.sendIds(Verb.COMMIT, 0, 1, client.await().ids().getFirst());
    assertEquals(Status.OK, client.await().status());
    rounds(harness);
  }

  private static boolean hasLarge(IndexHarness.Client client, int key) throws ProtocolViolation {
    client.sendKey(Verb.LOOKUP, 1, key);
    return client.work().first() == Status.OK;
  }

  @Test
  void put_noSlabForIt_thoseOfAnotherSizeGoAndNoMore() throws IOException, ProtocolViolation {
    try (IndexHarness harness = ofBlocksOfASlab(4, 0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.registerLarger((SMALL - 1) * IndexHarness.SLOT_BYTES);
      int cold = 100;
      for (int key = 0; key < cold; key++) {
        client.put(key, CHECKSUM);
      }
      for (int key = 0; key < 4; key++) {
        putLarge(harness, client, key);
      }
      assertEquals(cold, harness.counters.get(Counter.EVICTIONS));
      for (int key = 0; key < 4; key++) {
        assertTrue(hasLarge(client, key), "each has a slab: " + key);
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void store_noFileForIt_thoseOfAnotherSizeGoAndNoMore() throws IOException, ProtocolViolation {
    // The larger ones go when none of the others is there, and then one for one.
    for (int cold : new int[] {1, 100}) {
      try (IndexHarness harness = ofBlocksOfASlab(4, 4)) {
        IndexHarness.Client client = harness.open();
        client.register();
        client.registerLarger((SMALL - 1) * IndexHarness.SLOT_BYTES);
        for (int key = 0; key < cold; key++) {
          client.put(key, CHECKSUM);
        }
        rounds(harness);
        for (int key = 0; key < 8; key++) {
          putLarge(harness, client, key);
          int found = 0;
          for (int earlier = 0; earlier <= key; earlier++) {
            found += hasLarge(client, earlier) ? 1 : 0;
          }
          assertTrue(
              found >= Math.min(key + 1, 6), cold + ": " + found + " are there after " + key);
          harness.agent.checkInvariants();
        }
        long evictions = harness.counters.get(Counter.SSD_EVICTIONS);
        assertTrue(evictions <= cold + 2, cold + ": " + evictions + " left SSD");
      }
    }
  }

  @Test
  void store_tierIsFull_severalGoForOneWaitForTheirRows() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline[] devices = new IndexHarness.InlinePipeline[2];
    for (int i = 0; i < devices.length; i++) {
      devices[i] = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    }
    int files = 4;
    try (IndexHarness harness =
        new IndexHarness(settings(2).ssd(files, devices).admission("all").blocks(1_000))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int room = files * SLOTS;
      for (int key = 0; key < room; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      assertEquals(0, harness.counters.get(Counter.SSD_EVICTIONS));
      int batch = room / 64;
      for (int more = 1; more <= 3 * batch; more++) {
        client.put(room + more, CHECKSUM);
        rounds(harness);
        int batches = Math.ceilDiv(more, batch);
        assertEquals(
            Math.multiplyFull(batches, batch), harness.counters.get(Counter.SSD_EVICTIONS));
        assertEquals(room + more, harness.counters.get(Counter.DEMOTIONS));
        harness.agent.checkInvariants();
      }
    }
  }

  @Test
  void put_slotsAreComing_noMoreAreWrittenThanWait() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline device =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(1).ssd(2, device))) {
      IndexHarness.Client client = harness.open();
      client.register();
      device.holds = transfer -> transfer.kind == Transfer.Kind.STORE;
      for (int key = 0; key < SLOTS; key++) {
        client.put(key, CHECKSUM);
      }
      rounds(harness);
      int ahead = device.inFlight();
      client.sendKeys(Verb.RESERVE, 1_000, 2);
      rounds(harness);
      assertTrue(!client.hasAnswer(), "all slots are taken");
      assertEquals(ahead + 2, device.inFlight(), "one for each that waits");
      device.end();
      rounds(harness);
      assertEquals(2, client.await().ids().size());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void drain_blockPinnedWhileItIsWritten_anotherRegionDrains()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(4, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.registerLarger();
      for (int key = 0; key < 2 * SLOTS - 2; key++) {
        client.put(key, CHECKSUM);
      }
      assertEquals(0, harness.counters.get(Counter.DEMOTIONS), "all are in memory alone");
      for (int key = 1; key < SLOTS; key++) {
        assertEquals(Status.OK, client.ask(Verb.DELETE, key));
      }
      // In one round: a larger block asks for memory, the first slab begins to drain, and its last
      // block is pinned while it is written.
      client.sendKey(Verb.RESERVE, 1, 7);
      client.sendKey(Verb.PIN, 0, 0);
      IndexHarness.Answer reserved = null;
      for (int round = 0; round < 400 && reserved == null; round++) {
        int ignored = harness.agent.doWork();
        while (client.hasAnswer()) {
          IndexHarness.Answer answer = client.take();
          reserved = answer.verb() == Verb.RESERVE ? answer : reserved;
        }
      }
      assertTrue(reserved != null, "the larger block got no memory");
      assertEquals(1, reserved.ids().size());
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 0), "what is pinned stays");
      harness.agent.checkInvariants();
    }
  }

  @Test
  void acquire_deadlinePassesDuringTheLoad_isCountedAsAMiss() throws Exception {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(1).ssd(1, ssd))) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      assertEquals(Status.OK, client.admin("evict 1"));
      rounds(harness);
      ssd.holds = transfer -> transfer.kind == Transfer.Kind.LOAD;
      client.sendKeys(Verb.ACQUIRE, 1, 1);
      rounds(harness);
      harness.nowNs += 6_000_000_000L;
      assertEquals(Status.DEADLINE, client.work().first());
      assertEquals(1, harness.counters.get(Counter.ACQUIRE_BLOCKS));
      assertEquals(1, harness.counters.get(Counter.MISSES));

      client.sendKeys(Verb.ACQUIRE, 1, 1);
      client.send(Verb.CANCEL, 0, 0, 0);
      assertEquals(Status.CANCELLED, client.work().first());
      assertEquals(1, harness.counters.get(Counter.MISSES), "nobody waited for it in vain");
      assertEquals(Status.OK, client.take().status());
      ssd.end();
      rounds(harness);
      harness.agent.checkInvariants();
    }
  }

  @Test
  void release_corrupt_damagedBlockIsDroppedAndCanBePutAgain()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM + 1);
      assertEquals(Status.OK, client.ask(Verb.PIN, 1));
      client.sendKeys(Verb.ACQUIRE, 1, 1);
      long lease = client.work().ids().getFirst();

      client.sendIds(Verb.RELEASE, RequestDescriptor.FLAG_CORRUPT, 1, lease);
      assertEquals(Status.OK, client.work().first());
      int ignored = harness.agent.doWork();

      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 1));
      assertEquals(1, harness.counters.get(Counter.CORRUPT));
      assertEquals(0, client.session.holds, "the pin ended with the block");
      client.put(1, CHECKSUM);
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 1));
      harness.agent.checkInvariants();
    }
  }

  @Test
  void release_corrupt_soundBlockStays() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(0, Status.OK)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      client.sendKeys(Verb.ACQUIRE, 1, 1);
      long lease = client.work().ids().getFirst();
      client.sendIds(Verb.RELEASE, RequestDescriptor.FLAG_CORRUPT, 1, lease);
      assertEquals(Status.OK, client.work().first());
      int ignored = harness.agent.doWork();
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 1));
      assertEquals(0, harness.counters.get(Counter.CORRUPT));
      harness.agent.checkInvariants();
    }
  }

  @Test
  void flush_deviceFails_saysSo() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(2, Status.IO_ERROR)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 20; key++) {
        client.put(key, CHECKSUM);
      }
      client.send(Verb.FLUSH, 0, 0, 0);
      for (int round = 0; round < 50 && !client.hasAnswer(); round++) {
        int ignored = harness.agent.doWork();
      }
      IndexHarness.Answer flushed = client.take();
      assertEquals(Status.IO_ERROR, flushed.status());
      assertEquals(0, flushed.value());
      for (int key = 0; key < 20; key++) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), "what can't be written stays");
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void flush_copyOnSsdFoundDamagedWhileLeased_isWrittenAnew() throws Exception {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer ->
            transfer.status = transfer.kind == Transfer.Kind.LOAD ? Status.CORRUPT : Status.OK);
    try (IndexHarness harness =
        new IndexHarness(settings(2).ssd(2, ssd).admission("all").scrubbing(1 << 20))) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      client.sendKeys(Verb.ACQUIRE, 1, 1);
      assertEquals(1, client.work().ids().size());
      for (int round = 0; harness.counters.get(Counter.SCRUBBED_CORRUPT) == 0; round++) {
        assertTrue(round < 100, "nothing was read in the background");
        harness.nowNs += 100_000_000;
        int ignored = harness.agent.doWork();
      }
      assertEquals(0, durable(harness));
      client.send(Verb.FLUSH, 0, 0, 0);
      assertEquals(Status.OK, client.await().status());
      assertEquals(1, durable(harness));
      assertEquals(0, harness.counters.get(Counter.DROPPED));
    }
  }

  /** How many blocks the next start would find. */
  private static int durable(IndexHarness harness) {
    int[] count = new int[1];
    harness.agent.forEachDurable(false, block -> count[0]++);
    return count[0];
  }

  @Test
  void put_deviceIsFenced_acceptedBlocksAreNotDropped() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(2, Status.IO_ERROR)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 2 * SLOTS; key++) {
        client.put(key, CHECKSUM);
      }
      client.sendKeys(Verb.RESERVE, 9_999, 1);
      for (int round = 0; round < 50; round++) {
        int ignored = harness.agent.doWork();
      }
      assertEquals(0, harness.counters.get(Counter.DROPPED));
      for (int key = 0; key < 2 * SLOTS; key++) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key));
      }
    }
  }

  @Test
  void put_ledgerOfTheDeviceIsFull_goesOnWithoutItUntilItTakesRows()
      throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(2).ssd(1, ssd))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      int key = 0;
      while (harness.counters.get(Counter.SSD_EVICTIONS) == 0) {
        client.put(key++, CHECKSUM);
        rounds(harness);
      }
      String trouble = "no space left on device";
      ssd.ledgerTrouble = trouble;
      // One block is evicted from SSD for the next, and its row can't go: no store is handed over.
      List<Status> statuses = new ArrayList<>();
      List<String> states = new ArrayList<>();
      for (int second = 0; second < 60; second++) {
        harness.nowNs += 1_000_000_000;
        statuses.add(putWhileTimePasses(harness, client, key++));
        String report = client.stats();
        states.add(report.contains("\"state\":\"open\"") ? "open" : "not");
        assertEquals(
            states.getLast().equals("not"), report.contains("\"cause\":\"" + trouble), report);
        harness.agent.checkInvariants();
      }
      assertFalse(
          states.subList(states.indexOf("not"), states.size()).contains("open"),
          "trials that fail change nothing: " + states);
      assertEquals(
          List.of(Status.OK),
          statuses.subList(20, statuses.size()).stream().distinct().toList(),
          "a device that takes nothing stands in nobody's way: " + statuses);
      assertTrue(harness.counters.get(Counter.DROPPED) > 0, "by policy, and counted");
      long before = harness.counters.get(Counter.DEMOTIONS);
      ssd.ledgerTrouble = "";
      for (int second = 0; second < 10; second++) {
        harness.nowNs += 1_000_000_000;
        rounds(harness);
      }
      assertTrue(harness.counters.get(Counter.DEMOTIONS) > before, "tried without being asked");
      assertTrue(client.stats().contains("\"state\":\"open\",\"cause\":\"\""));
    }
  }

  /** How a put ends; where there is no slot it waits until its deadline. */
  private static Status putWhileTimePasses(
      IndexHarness harness, IndexHarness.Client client, long key) throws ProtocolViolation {
    client.sendKeys(Verb.RESERVE, key, 1);
    rounds(harness);
    for (int i = 0; i < 1_000 && !client.hasAnswer(); i++) {
      harness.nowNs += 10_000_000;
      rounds(harness);
    }
    IndexHarness.Answer answer = client.take();
    if (answer.first() == Status.OK) {
      long id = answer.ids().getFirst();
      client.sendIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, id, CHECKSUM);
      assertEquals(Status.OK, client.work().first());
      rounds(harness);
    }
    return answer.first();
  }

  @Test
  void get_deviceTakesNoWrites_readsWhatStandsThere() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(2).ssd(4, ssd))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      int key = 0;
      for (; key < 3 * SLOTS; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      ssd.ledgerTrouble = "read-only file system";
      for (int second = 0; second < 40; second++) {
        harness.nowNs += 1_000_000_000;
        var _ = putWhileTimePasses(harness, client, key++);
      }
      assertTrue(client.stats().contains("\"cause\":\"read-only"));
      long before = harness.counters.get(Counter.PROMOTIONS);
      client.sendKeys(Verb.ACQUIRE, 0, 1);
      assertEquals(Status.OK, client.await().first());
      assertEquals(before + 1, harness.counters.get(Counter.PROMOTIONS));
    }
  }

  @Test
  void devices_oneFails_theOtherTakesAll() throws IOException, ProtocolViolation {
    int[] stores = new int[2];
    IndexHarness.InlinePipeline failing =
        new IndexHarness.InlinePipeline(transfer -> {
          stores[0]++;
          transfer.status = Status.IO_ERROR;
        });
    IndexHarness.InlinePipeline sound =
        new IndexHarness.InlinePipeline(transfer -> {
          stores[1]++;
          transfer.status = Status.OK;
        });
    try (IndexHarness harness = new IndexHarness(settings(2).ssd(4, failing, sound))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int blocks = 2 * SLOTS + 60;
      for (int key = 0; key < blocks; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      assertEquals(0, harness.counters.get(Counter.DROPPED), "there was room on one device");
      assertTrue(stores[0] <= 16, stores[0] + " stores were tried on the device that fails");
      assertTrue(stores[1] >= 60, stores[1] + " stores");
      for (int key = 0; key < blocks; key++) {
        assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), "block " + key);
      }
    }
  }

  @Test
  void delete_isAnsweredWhenTheRowsAreForgotten() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    ssd.holds = IndexHarness.InlinePipeline.FORGETS;
    try (IndexHarness harness = new IndexHarness(settings(2).ssd(4, ssd).admission("all"))) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(1, CHECKSUM);
      client.put(2, CHECKSUM);
      rounds(harness);
      assertEquals(2, harness.counters.get(Counter.DEMOTIONS));
      client.sendKeys(Verb.DELETE, 1, 1);
      rounds(harness);
      assertFalse(client.hasAnswer(), "a later start would still find it");
      client.sendKeys(Verb.LOOKUP, 1, 1);
      assertEquals(Status.MISS, client.work().first(), "it is gone for this one at once");
      ssd.end();
      assertEquals(Status.OK, client.work().first());
    }
  }

  @Test
  void store_intoAFreedSlot_comesAfterItsRowIsForgotten() throws IOException, ProtocolViolation {
    List<String> order = new ArrayList<>();
    Pipeline inner = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    Pipeline watched =
        new Pipeline() {
          @Override
          public boolean offer(Transfer transfer) {
            if (transfer.kind == Transfer.Kind.FORGET) {
              for (int i = 0; i < transfer.placeCount; i++) {
                order.add("forget " + transfer.places[i]);
              }
            } else if (transfer.kind == Transfer.Kind.STORE) {
              order.add("store " + transfer.place());
            }
            return inner.offer(transfer);
          }

          @Override
          public int collect(Consumer<Transfer> finished) {
            return inner.collect(finished);
          }

          @Override
          public boolean hasFinished() {
            return inner.hasFinished();
          }

          @Override
          public int inFlight() {
            return inner.inFlight();
          }

          @Override
          public void close() {}
        };
    try (IndexHarness harness = new IndexHarness(settings(2).ssd(1, watched).admission("all"))) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 3 * SLOTS; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      Map<String, Integer> stored = new HashMap<>();
      for (int i = 0; i < order.size(); i++) {
        String place = order.get(i).substring(order.get(i).indexOf(' '));
        if (order.get(i).startsWith("store")) {
          Integer before = stored.put(place, i);
          assertTrue(
              before == null || order.subList(before, i).contains("forget" + place),
              "place" + place + " was stored to twice with its row standing");
        }
      }
      assertTrue(order.size() > 3 * SLOTS, "nothing was replaced");
    }
  }

  @Test
  void store_waitsUntilTheRowsOfFreedSlotsAreForgotten() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline ssd =
        new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    ssd.holds = IndexHarness.InlinePipeline.FORGETS;
    try (IndexHarness harness = new IndexHarness(settings(4).ssd(1, ssd).admission("all"))) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 0; key < 2 * SLOTS; key++) {
        client.put(key, CHECKSUM);
        rounds(harness);
      }
      long stored = harness.counters.get(Counter.DEMOTIONS);
      assertTrue(harness.counters.get(Counter.SSD_EVICTIONS) > 0, "the file never was full");
      assertTrue(stored <= SLOTS, stored + " stores: some into slots whose rows stand");
      ssd.holds = transfer -> false;
      ssd.end();
      rounds(harness);
      assertTrue(harness.counters.get(Counter.DEMOTIONS) > stored, "nothing went on");
      assertEquals(0, harness.counters.get(Counter.DROPPED));
    }
  }
}

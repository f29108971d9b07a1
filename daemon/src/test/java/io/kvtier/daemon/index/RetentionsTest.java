package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/** Blocks that clients retain: they outlive floods, for their lifetimes and not longer. */
class RetentionsTest {
  private static final int SLOTS = 72;
  private static final int QUOTA = (int) (SLOTS * IndexHarness.RETAINED_SHARE);
  private static final long MINUTE_NS = 60_000_000_000L;
  private static final int CHECKSUM = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  private static IndexHarness.Settings memory() {
    return new IndexHarness.Settings(1, SLOTS)
        .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0);
  }

  private static IndexHarness.Settings withSsd(int files) {
    return memory()
        .ssd(files, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK));
  }

  private static void rounds(IndexHarness harness) {
    for (int round = 0; round < 10; round++) {
      int ignored = harness.agent.doWork();
    }
    harness.agent.checkInvariants();
  }

  private static void put(IndexHarness harness, IndexHarness.Client client, int from, int to)
      throws ProtocolViolation {
    for (int key = from; key < to; key++) {
      client.put(key, CHECKSUM);
      rounds(harness);
    }
  }

  private static void expect(IndexHarness.Client client, Status status, int from, int to)
      throws ProtocolViolation {
    for (int key = from; key < to; key++) {
      assertEquals(status, client.ask(Verb.LOOKUP, key), "key " + key);
    }
  }

  private static void wait(IndexHarness harness, long ns) {
    harness.nowNs += ns;
    rounds(harness);
  }

  @Test
  void flood_withEachPolicy_retainedBlocksStayForTheirLifetimeAndNotLonger() throws Exception {
    for (String policy : EvictionPolicies.names()) {
      try (IndexHarness harness = new IndexHarness(memory())) {
        IndexHarness.Client client = harness.open();
        client.register();
        assertEquals(Status.OK, client.admin("policy host " + policy));
        put(harness, client, 0, QUOTA);
        assertEquals(QUOTA, client.retain(0, QUOTA, MINUTE_NS).run(), policy);
        put(harness, client, 1_000, 1_000 + 4 * SLOTS);
        expect(client, Status.OK, 0, QUOTA);
        wait(harness, MINUTE_NS - 1);
        put(harness, client, 2_000, 2_000 + 2 * SLOTS);
        assertEquals(Status.OK, client.admin("evict 4096"));
        expect(client, Status.OK, 0, QUOTA);

        wait(harness, 300_000_000);
        assertEquals(QUOTA, harness.counters.get(Counter.RETENTIONS_EXPIRED), policy);
        expect(client, Status.OK, 0, QUOTA);
        // A flood displaces them only if the policy lets blocks that came once displace older ones.
        assertEquals(Status.OK, client.admin("evict 4096"));
        expect(client, Status.MISS, 0, QUOTA);
      }
    }
  }

  @Test
  void retain_withSsd_isWrittenThereEarlyAndOutlivesFloodsOfBothTiers() throws Exception {
    try (IndexHarness harness = new IndexHarness(withSsd(2))) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, QUOTA);
      assertEquals(0, harness.counters.get(Counter.DEMOTIONS));
      assertEquals(Status.OK, client.retain(0, QUOTA, MINUTE_NS).status());
      rounds(harness);
      assertEquals(QUOTA, harness.counters.get(Counter.DEMOTIONS), "before memory is full");

      put(harness, client, 1_000, 1_000 + 12 * SLOTS);
      expect(client, Status.OK, 0, QUOTA);
      client.sendText(Verb.ADMIN, 0, "inspect 0 0000000000000000 test");
      String inspected = client.text();
      assertTrue(inspected.contains("\"host\":\"no\""), inspected);
      assertTrue(inspected.contains("\"retained_s\":60"), inspected);

      wait(harness, MINUTE_NS + 300_000_000);
      put(harness, client, 5_000, 5_000 + 12 * SLOTS);
      expect(client, Status.MISS, 0, QUOTA);
    }
  }

  @Test
  void retain_admissionRefusesTheBlock_isWrittenToTheSsdAllTheSame() throws Exception {
    try (IndexHarness harness = new IndexHarness(withSsd(2).admission("frequency"))) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 2);
      assertEquals(Status.OK, client.retain(0, 1, MINUTE_NS).status());
      rounds(harness);
      assertEquals(1, harness.counters.get(Counter.DEMOTIONS));
    }
  }

  @Test
  void retain_writesToSsdFail_blocksStayInMemory() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline failing =
        new IndexHarness.InlinePipeline(transfer ->
            transfer.status = transfer.kind == Transfer.Kind.STORE ? Status.IO_ERROR : Status.OK);
    try (IndexHarness harness = new IndexHarness(memory().ssd(1, failing))) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, QUOTA);
      assertEquals(Status.OK, client.retain(0, QUOTA, MINUTE_NS).status());
      rounds(harness);
      // Blocks without a copy below are not dropped, however many evictions are asked for.
      assertEquals(Status.OK, client.admin("evict 100"));
      rounds(harness);
      expect(client, Status.OK, 0, QUOTA);
    }
  }

  @Test
  void retain_moreThanTheQuota_isRefusedWithTheNumbersAndKeepsNothing() throws Exception {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, QUOTA + 1);
      client.sendRetain(0, QUOTA + 1, MINUTE_NS);
      assertEquals(
          "retaining 19 more blocks takes 76 KiB, and 0 B of the quota of 72 KiB are in use"
              + " (limits.retained): retain less, or for a shorter time",
          client.text());
      assertEquals(QUOTA + 1, harness.counters.get(Counter.RETENTIONS_REFUSED));
      assertEquals(Status.OVER_QUOTA, client.retain(0, QUOTA + 1, MINUTE_NS).status());

      assertEquals(Status.OK, client.retain(0, QUOTA - 2, MINUTE_NS).status());
      client.sendRetain(0, QUOTA + 1, MINUTE_NS);
      assertTrue(client.text().contains("3 more blocks takes 12 KiB, and 64 KiB of the quota"));
      // Blocks that are retained already take nothing more from the quota.
      assertEquals(Status.OK, client.retain(0, QUOTA, 2 * MINUTE_NS).status());
      wait(harness, MINUTE_NS + 300_000_000);
      assertEquals(
          Status.OVER_QUOTA, client.retain(QUOTA, 1, MINUTE_NS).status(), "until they end");
      wait(harness, MINUTE_NS);
      assertEquals(Status.OK, client.retain(QUOTA, 1, MINUTE_NS).status());
    }
  }

  @Test
  void retain_again_longerCountsAndShorterDoesNot() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 2);
      assertEquals(Status.OK, client.retain(0, 2, 2 * MINUTE_NS).first());
      assertEquals(Status.OK, client.retain(0, 1, MINUTE_NS).first());
      assertEquals(Status.OK, client.retain(1, 1, 5 * MINUTE_NS).first());
      wait(harness, 2 * MINUTE_NS - 1);
      assertEquals(0, harness.counters.get(Counter.RETENTIONS_EXPIRED));
      wait(harness, 300_000_000);
      assertEquals(1, harness.counters.get(Counter.RETENTIONS_EXPIRED));
      wait(harness, 3 * MINUTE_NS);
      assertEquals(2, harness.counters.get(Counter.RETENTIONS_EXPIRED));
    }
  }

  @Test
  void retain_lifetimeZero_endsRetentions() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, QUOTA);
      assertEquals(Status.OK, client.retain(0, QUOTA, MINUTE_NS).first());
      assertEquals(Status.OK, client.retain(0, QUOTA, 0).first());
      put(harness, client, 1_000, 1_000 + 2 * SLOTS);
      expect(client, Status.MISS, 0, QUOTA);
      assertEquals(0, harness.directory.retentions().count());
    }
  }

  @Test
  void retain_absentBlocks_areMissesAndTakeNoQuota() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 1);
      IndexHarness.Answer answer = client.retain(0, 10 * QUOTA, MINUTE_NS);
      assertEquals(Status.OK, answer.first());
      assertEquals(Status.MISS, answer.last());
      assertEquals(1, harness.directory.retentions().count());
    }
  }

  @Test
  void retain_blockThatIsBeingWritten_isPendingAndKept() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      long id = client.reserve(7, 1, true).ids().getFirst();
      assertEquals(Status.PENDING, client.retain(7, 1, MINUTE_NS).first());
      client.sendIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, id, CHECKSUM);
      assertEquals(Status.OK, client.work().first());
      put(harness, client, 1_000, 1_000 + 2 * SLOTS);
      expect(client, Status.OK, 7, 8);
    }
  }

  @Test
  void retain_blockWhosePutIsGivenUp_freesTheQuota() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      long id = client.reserve(7, 1, true).ids().getFirst();
      assertEquals(Status.PENDING, client.retain(7, 1, MINUTE_NS).first());
      client.sendIds(Verb.ABORT, 0, 1, id);
      assertEquals(Status.OK, client.work().first());
      rounds(harness);
      assertEquals(0, harness.directory.retentions().count());
    }
  }

  @Test
  void delete_retainedBlock_goesAndFreesTheQuota() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, QUOTA + 1);
      assertEquals(Status.OK, client.retain(0, QUOTA, MINUTE_NS).first());
      assertEquals(Status.OK, client.ask(Verb.DELETE, 0));
      expect(client, Status.MISS, 0, 1);
      assertEquals(Status.OK, client.retain(QUOTA, 1, MINUTE_NS).first());
    }
  }

  @Test
  void retain_tooLong_isRefusedWithTheLimit() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 1);
      for (long lifetimeNs : new long[] {IndexHarness.RETENTION_NS_MAX + 1, -1}) {
        client.sendRetain(0, 1, lifetimeNs);
        assertEquals(
            "the lifetime of a retention is "
                + Long.toUnsignedString(lifetimeNs)
                + " ns, expected at most 86400000000000 ns (limits.retention_max)",
            client.text());
      }
      assertEquals(Status.OK, client.retain(0, 1, IndexHarness.RETENTION_NS_MAX).first());
    }
  }

  @Test
  void put_fewerRecordsThanSlots_retainedBlocksAreNotForgotten() throws Exception {
    for (int files : new int[] {0, 2}) {
      try (IndexHarness harness = new IndexHarness(withSsd(files).blocks(64))) {
        IndexHarness.Client client = harness.open();
        client.register();
        put(harness, client, 0, 20);
        client.sendRetain(0, 17, MINUTE_NS);
        assertTrue(client.text().contains("takes 17 records, and 0 of the quota of 16 are in use"));
        assertEquals(16, client.retain(0, 16, MINUTE_NS).run());
        put(harness, client, 1_000, 1_000 + 4 * SLOTS);
        expect(client, Status.OK, 0, 16);
      }
    }
  }

  @Test
  void session_endsBeforeTheLifetime_blocksStay() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(memory())) {
      IndexHarness.Client first = harness.open();
      first.register();
      put(harness, first, 0, 1);
      assertEquals(Status.OK, first.retain(0, 1, MINUTE_NS).first());
      IndexHarness.Client second = harness.open();
      second.register();
      harness.close(first);
      put(harness, second, 1_000, 1_000 + 2 * SLOTS);
      expect(second, Status.OK, 0, 1);
    }
  }
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/** The importance of blocks, which puts carry and policies see. */
class ImportanceTest {
  private static final int SLOTS = 32;
  private static final int LOW = 0;
  private static final int HIGH = 2;
  private static final int CHECKSUM = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  private static IndexHarness harness(int files) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, SLOTS)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .ssd(files, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK)));
  }

  private static void put(
      IndexHarness harness, IndexHarness.Client client, int importance, int from, int to)
      throws ProtocolViolation {
    for (int key = from; key < to; key++) {
      client.sendWords(Verb.RESERVE, Records.importanceFlags(importance), 8, 1, new long[] {key});
      long id = client.work().ids().getFirst();
      client.sendIds(Verb.COMMIT, RequestDescriptor.FLAG_CHECKSUMS, 1, id, CHECKSUM);
      assertEquals(Status.OK, client.work().first());
      for (int round = 0; round < 5; round++) {
        int ignored = harness.agent.doWork();
      }
      harness.agent.checkInvariants();
    }
  }

  private static void expect(IndexHarness.Client client, Status status, int from, int to)
      throws ProtocolViolation {
    for (int key = from; key < to; key++) {
      assertEquals(status, client.ask(Verb.LOOKUP, key), "key " + key);
    }
  }

  @Test
  void evict_blocksOfSeveralImportances_theLeastImportantGo() throws Exception {
    try (IndexHarness harness = harness(0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, HIGH, 0, 10);
      put(harness, client, 1, 10, 22);
      put(harness, client, LOW, 22, 32);
      put(harness, client, 1, 100, 110);
      expect(client, Status.MISS, 22, 32);
      expect(client, Status.OK, 0, 22);
      put(harness, client, 1, 110, 122);
      expect(client, Status.OK, 0, 10);
      expect(client, Status.MISS, 10, 22);
    }
  }

  @Test
  void putAgain_moreImportant_raisesTheImportance() throws Exception {
    try (IndexHarness harness = harness(0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, LOW, 0, 10);
      put(harness, client, 1, 10, 32);
      for (int key = 0; key < 10; key++) {
        client.sendWords(
            Verb.RESERVE, Records.importanceFlags(key < 5 ? HIGH : LOW), 8, 1, new long[] {key});
        assertEquals(Status.EXISTS, client.work().first());
      }
      put(harness, client, 1, 100, 115);
      expect(client, Status.OK, 0, 5);
      expect(client, Status.MISS, 5, 10);
    }
  }

  @Test
  void policy_swapped_importanceStays() throws Exception {
    try (IndexHarness harness = harness(0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, HIGH, 0, 10);
      put(harness, client, 1, 10, 32);
      assertEquals(Status.OK, client.admin("policy host lineage/sieve"));
      harness.agent.checkInvariants();
      put(harness, client, 1, 100, 120);
      expect(client, Status.OK, 0, 10);
    }
  }

  @Test
  void demoted_importanceCountsOnSsd() throws Exception {
    try (IndexHarness harness = harness(1)) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, LOW, 0, 10);
      put(harness, client, 1, 10, 100);
      expect(client, Status.MISS, 0, 10);
      expect(client, Status.OK, 60, 100);
    }
  }

  @Test
  void importance_ofAVerbThatBringsNoBlocks_endsTheSession() throws Exception {
    try (IndexHarness harness = harness(0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.sendWords(Verb.LOOKUP, Records.importanceFlags(LOW), 8, 1, new long[] {1});
      int ignored = harness.agent.doWork();
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }
}

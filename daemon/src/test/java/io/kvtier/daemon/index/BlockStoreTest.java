package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/** How blocks leave, and what becomes of damaged ones. */
class BlockStoreTest {
  private static final int SLOTS = 72;
  private static final int CHECKSUM = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  private static IndexHarness harness(int files, Status ofStores) throws IOException {
    return new IndexHarness(
        2,
        SLOTS,
        0,
        new IndexHarness.InlinePipeline(Checksums::run),
        files,
        new IndexHarness.InlinePipeline(transfer -> transfer.status = ofStores));
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
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Encoded parts of blocks when ranks die, slots are in use, and bytes are damaged or deleted. */
final class EncodedRanksFailuresTest extends EncodedRanks {
  EncodedRanksFailuresTest() {
    super(EncodingKind.EXACT);
  }

  @Test
  void rankThatDies_inTheMiddle_leavesNothing() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      Rank stays = new Rank(harness, 0, LAYERS, 0, HEADS);
      int expired = 0;
      for (boolean isFirst : new boolean[] {true, false}) {
        for (boolean isFlawed : new boolean[] {true, false}) {
          List<Rank> writers = engine(harness, 1, 4);
          byte[] block = isFlawed ? spoil(values(), 3, 1, 2) : values();
          for (Rank rank : writers.subList(0, 3)) {
            rank.write(2, block);
            assertEquals(Status.OK, rank.put(7, 2));
          }
          if (isFirst) {
            // The first rank has begun the block.
            harness.close(writers.getFirst().client);
          } else {
            harness.close(writers.getLast().client);
            harness.nowNs += IndexHarness.LEASE_NS + 1;
            int ignored = harness.agent.doWork();
            expired++;
          }
          assertEquals(expired, count(harness, Counter.PARTIAL_EXPIRED));
          workUntilIdle(harness);
          assertEquals(Status.MISS, stays.client.ask(Verb.LOOKUP, 7));
          assertEquals(0, slotsInUse(harness, stays));
          stays.write(2, block);
          assertEquals(Status.OK, stays.put(7, 2));
          assertArrayEquals(block, read(List.of(stays), 7, 1));
          clear(stays);
        }
      }
    }
  }

  @Test
  void rankThatDies_whileItsPartWaitsToBePutRaw_leavesNothing()
      throws IOException, ProtocolViolation {
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(1, gpu)) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = spoil(values(), 0, 0, 3);
      holdAllSlots(harness, writers.getFirst());
      writers.forEach(rank -> rank.write(2, block));
      assertEquals(Status.OK, writers.getFirst().put(7, 2));
      writers.getLast().offload(7, 2);
      work(harness, 1000);
      harness.close(writers.getLast().client);
      workUntilIdle(harness);
      assertEquals(Status.MISS, writers.getFirst().client.ask(Verb.LOOKUP, 7));
      assertEquals(1, slotsInUse(harness, writers.getFirst()));
    }
  }

  @Test
  void rankThatDies_whileItsPartWaitsToBePutRaw_leavesTheBlock_toAPartOnItsWay()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = spoil(values(), 0, 0, 3);
      holdAllSlots(harness, writers.getFirst());
      writers.forEach(rank -> rank.write(2, block));
      writers.getFirst().offloadAfterEvent(7, 2);
      work(harness, 100);
      writers.getLast().offload(7, 2);
      work(harness, 1000);
      assertEquals(2, slotsInUse(harness, writers.getFirst()), "no raw slot");
      harness.close(writers.getLast().client);
      work(harness, 100);
      endEvent();
      assertEquals(Verb.OFFLOAD, writers.getFirst().client.await().verb());
      workUntilIdle(harness);
      assertEquals(Status.MISS, writers.getFirst().client.ask(Verb.LOOKUP, 7));
      assertEquals(1, slotsInUse(harness, writers.getFirst()));
    }
  }

  @Test
  void partThatDoesNotFit_ofABlockThatIsLost_isNotPutRaw() throws IOException, ProtocolViolation {
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(1, gpu)) {
      List<Rank> writers = engine(harness, 1, 2);
      Rank last = writers.getLast();
      byte[] block = spoil(values(), 0, 0, 3);
      holdAllSlots(harness, last);
      writers.forEach(rank -> rank.write(2, block));
      assertEquals(Status.OK, writers.getFirst().put(7, 2));
      gpu.hold();
      last.offload(7, 2);
      work(harness, 20);
      harness.close(writers.getFirst().client);
      gpu.letGo();
      assertEquals(Verb.OFFLOAD, last.client.await().verb(), "it waits for no raw slot");
      workUntilIdle(harness);
      assertEquals(Status.MISS, last.client.ask(Verb.LOOKUP, 7));
      assertEquals(1, slotsInUse(harness, last));
    }
  }

  /** A part waits for a slot, and its block becomes raw: it does not delay encoded blocks. */
  @Test
  void partThatWaits_whenItsBlockBecomesRaw_waitsForARawSlot()
      throws IOException, ProtocolViolation {
    int slots = 8;
    try (IndexHarness harness = harness(2, gpu())) {
      Rank whole = new Rank(harness, 0, LAYERS, 0, HEADS);
      Rank pins = new Rank(harness, 0, LAYERS, 0, HEADS);
      for (int key = 1; key <= slots; key++) {
        whole.write(0, values());
        assertEquals(Status.OK, whole.put(key, 0));
        workUntilIdle(harness);
        pins.client.sendKeys(Verb.PIN, key, 1);
        assertEquals(Status.OK, pins.client.await().first());
      }
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = spoil(values(), 0, 0, 0);
      writers.forEach(rank -> rank.write(2, block));
      Rank third = new Rank(harness, 0, LAYERS, 0, HEADS);
      third.write(2, values());
      whole.write(2, values());
      writers.getFirst().offload(20, 2);
      work(harness, 1);
      third.offload(21, 2);
      work(harness, 1);
      writers.getLast().offload(20, 2);
      work(harness, 1);
      whole.offload(22, 2);
      work(harness, 1);
      pins.client.sendKeys(Verb.UNPIN, 1, 1);
      assertEquals(Status.OK, pins.client.await().first());
      work(harness, 2000);
      assertFalse(third.client.hasAnswer(), "the slot is the first part's");
      pins.client.sendKeys(Verb.UNPIN, 2, 2);
      assertEquals(Status.OK, pins.client.await().first());
      assertEquals(Status.OK, third.client.await().first());
      assertEquals(Status.OK, whole.client.await().first());
      assertFalse(writers.getLast().client.hasAnswer(), "there is no raw slot");
    }
  }

  @Test
  void blockWithoutARawSlot_isBusy_andLeavesNothing() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(1, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = spoil(values(), 0, 0, 3);
      holdAllSlots(harness, writers.getFirst());
      writers.forEach(rank -> rank.write(2, block));
      assertEquals(Status.OK, writers.getFirst().put(7, 2));
      Rank last = writers.getLast();
      last.offload(7, 2);
      for (int i = 0; i < 1000 && !last.client.hasAnswer(); i++) {
        int ignored = harness.agent.doWork();
        harness.agent.checkInvariants();
        harness.nowNs += 100_000_000;
      }
      assertTrue(last.client.hasAnswer());
      assertNotEquals(Status.OK, last.client.take().first());
      workUntilIdle(harness);
      assertEquals(Status.MISS, last.client.ask(Verb.LOOKUP, 7));
      assertEquals(1, slotsInUse(harness, last));
    }
  }

  @Test
  void encodedPartOfARawBlock_damagedBeforeTheLastPart_costsTheBlock()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = values();
      byte[] part = granuleOf(encoded(block), 1, encoding.encodedGranuleBytes());
      spoil(block, 2, 1, 3);
      writers.forEach(rank -> rank.write(2, block));
      assertEquals(Status.OK, writers.getFirst().put(7, 2));
      long at = harness.find(part) + 100;
      byte other = (byte) (harness.slabs().get(ValueLayout.JAVA_BYTE, at) ^ 0x55);
      harness.slabs().set(ValueLayout.JAVA_BYTE, at, other);
      assertEquals(Status.OK, writers.getLast().put(7, 2));
      workUntilIdle(harness);
      assertEquals(1, count(harness, Counter.CORRUPT));
      assertEquals(Status.MISS, writers.getFirst().client.ask(Verb.LOOKUP, 7));
      assertEquals(0, slotsInUse(harness, writers.getFirst()));
    }
  }

  @Test
  void rawBlock_isNotRead_beforeItsEncodedPartsAreDecoded() throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline checksums = new IndexHarness.InlinePipeline(Checksums::run);
    try (IndexHarness harness = harness(3, gpu(), checksums)) {
      List<Rank> writers = engine(harness, 1, 2);
      Rank whole = new Rank(harness, 0, LAYERS, 0, HEADS);
      byte[] block = spoil(values(), 0, 0, 3);
      checksums.holds = transfer -> transfer.kind == Transfer.Kind.CHECKSUM;
      for (Rank rank : writers) {
        rank.write(2, block);
        assertEquals(Status.OK, rank.put(7, 2));
      }
      assertEquals(2, slotsInUse(harness, whole));
      whole.client.sendLayers(Verb.ONBOARD, whole.region, 0, 0, 7, 1);
      work(harness, 1000);
      assertFalse(whole.client.hasAnswer(), "it waits for the block");
      checksums.end();
      checksums.holds = transfer -> false;
      assertEquals(Status.OK, whole.client.await().first());
      workUntilIdle(harness);
      assertArrayEquals(block, read(List.of(whole), 7, 1));
      assertEquals(1, slotsInUse(harness, whole));
    }
  }

  @Test
  void rawBlock_isNotDeleted_beforeItsEncodedPartsAreDecoded()
      throws IOException, ProtocolViolation {
    IndexHarness.InlinePipeline checksums = new IndexHarness.InlinePipeline(Checksums::run);
    try (IndexHarness harness = harness(3, gpu(), checksums)) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[] block = spoil(values(), 0, 0, 3);
      checksums.holds = transfer -> transfer.kind == Transfer.Kind.CHECKSUM;
      for (Rank rank : writers) {
        rank.write(2, block);
        assertEquals(Status.OK, rank.put(7, 2));
      }
      Status ignored = writers.getFirst().client.ask(Verb.DELETE, 7);
      writers.getFirst().client.send(Verb.CLEAR, 0, 0, 0);
      assertEquals(Verb.CLEAR, writers.getFirst().client.await().verb());
      checksums.end();
      checksums.holds = transfer -> false;
      workUntilIdle(harness);
      assertArrayEquals(block, read(writers, 7, 1));
      assertEquals(1, slotsInUse(harness, writers.getFirst()));
    }
  }
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/**
 * A second class of SSD below the first: a tier that no class of the daemon names. It takes the
 * blocks that the tier above it drops, and gives them back to memory past that tier.
 */
public class ThirdTierTest {
  private static final TierTraits LARGE =
      new TierTraits(
          TierId.SSD,
          "large",
          "large SSD",
          8,
          new TierTraits.Times(Latencies.Kind.LOAD_SSD, Latencies.Kind.STORE_SSD),
          KnownTiers.SSD.counts());

  /** The tiers below the first, for a stack of three. */
  public static final List<TierTraits> LOWER = List.of(KnownTiers.SSD, LARGE);

  private static final int SLOTS = 16;
  private static final int CHECKSUM = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  /** A device that keeps the blocks that it is given, and counts its transfers. */
  private static final class Device {
    private final Map<Long, MemorySegment> stored = new HashMap<>();
    private final Arena arena = Arena.ofAuto();
    private int loads;
    private int stores;
    private int attempts;
    private boolean fails;

    void run(Transfer transfer) {
      attempts++;
      transfer.status = fails ? Status.IO_ERROR : Status.OK;
      if (fails) {
        return;
      }
      if (transfer.kind == Transfer.Kind.STORE) {
        MemorySegment copy = arena.allocate(transfer.length);
        copy.copyFrom(transfer.bytes());
        stored.put(transfer.place(), copy);
        transfer.writtenBytes = transfer.length;
        stores++;
      } else {
        transfer.bytes().copyFrom(stored.get(transfer.place()));
        loads++;
      }
    }
  }

  private final Device fast = new Device();
  private final Device large = new Device();

  private IndexHarness harness() throws IOException {
    return harness("evicted");
  }

  /** Memory of 16 blocks, a fast tier of 32, and a large one of 256. */
  private IndexHarness harness(String admission) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, SLOTS)
            .blocks(512)
            .admission(admission)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .ssd(2, new IndexHarness.InlinePipeline(fast::run))
            .below(LARGE, 16, new IndexHarness.InlinePipeline(large::run)));
  }

  private static void rounds(IndexHarness harness) throws ProtocolViolation {
    for (int round = 0; round < 64; round++) {
      harness.nowNs += 1_000_000;
      var _ = harness.agent.doWork();
    }
    harness.agent.checkInvariants();
  }

  /** Puts blocks one after the other, each when there is room for it. */
  private static void put(IndexHarness harness, IndexHarness.Client client, int from, int to)
      throws ProtocolViolation {
    for (int key = from; key < to; key++) {
      client.put(key, CHECKSUM);
      rounds(harness);
    }
  }

  private static void assertAllFound(IndexHarness.Client client, int blocks)
      throws ProtocolViolation {
    for (int key = 0; key < blocks; key++) {
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, key), "block " + key);
    }
  }

  @Test
  void demotion_goesThroughAllThree_andNothingIsDropped() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 128);
      assertAllFound(client, 128);
      assertTrue(large.stores >= 128 - SLOTS - 32, large.stores + " reached the third tier");
      assertEquals(0, harness.counters.get(Counter.DROPPED));
      harness.nowNs += 1_000_000_000L;
      rounds(harness);
      long inMemory = harness.counters.get(Counter.GAUGE_HOST_SLOTS_RESIDENT);
      long below = harness.counters.get(Counter.GAUGE_SSD_SLOTS_RESIDENT);
      assertTrue(below >= 128 - inMemory, below + " copies in both lower tiers");
    }
  }

  @Test
  void promotion_passesTheTierBetween() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 128);
      assertEquals(large.stores, fast.loads, "only what went further down was read from there");
      assertEquals(Status.OK, client.ask(Verb.PREFETCH, 0));
      rounds(harness);
      assertEquals(1, large.loads, "the block came from the third tier");
      assertEquals(1, harness.counters.get(Counter.PROMOTIONS));
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 0));
    }
  }

  @Test
  void delete_leavesNothingInAnyTier() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 128);
      for (int key = 0; key < 128; key++) {
        client.sendKeys(Verb.DELETE, key, 1);
        assertEquals(Status.OK, client.await().first());
        assertEquals(Status.MISS, client.ask(Verb.LOOKUP, key), "block " + key);
      }
      assertEquals(0, harness.directory().size());
    }
  }

  @Test
  void thirdTierFails_whatLeavesTheSecondStaysThere_untilItWorksAgain()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = harness.open();
      client.register();
      large.fails = true;
      put(harness, client, 0, 40);
      assertAllFound(client, 40);
      assertEquals(0, large.stores);
      large.fails = false;
      // A fence opens after seconds; then one block shows that the device works.
      for (int second = 0; second < 30; second++) {
        harness.nowNs += 1_000_000_000L;
        rounds(harness);
      }
      put(harness, client, 40, 128);
      assertAllFound(client, 128);
      assertTrue(large.stores > 0, "the third tier takes blocks again");
    }
  }

  @Test
  void readFails_copyOnAFencedDeviceIsNotTried_andIsThereWhenTheDeviceWorks()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open();
      client.register();
      // All blocks go to both lower tiers: the fast one has the newest 32, memory the newest 16.
      put(harness, client, 0, 64);
      large.fails = true;
      for (int key = 0; key < 8; key++) {
        assertEquals(Status.MISS, get(client, key));
      }
      long dropped = harness.counters.get(Counter.DROPPED);
      int attempts = large.attempts;
      fast.fails = true;
      assertEquals(Status.MISS, get(client, 40));
      assertEquals(attempts, large.attempts, "reads of the device that is fenced now");
      large.fails = false;
      fast.fails = false;
      for (int second = 0; second < 30; second++) {
        harness.nowNs += 1_000_000_000L;
        rounds(harness);
      }
      assertEquals(Status.OK, get(client, 40));
      assertEquals(dropped, harness.counters.get(Counter.DROPPED));
    }
  }

  @Test
  void readFails_nextTierIsRead_andTheSlotOfTheFailedCopyIsFree()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness("all")) {
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 0, 64);
      fast.fails = true;
      assertEquals(Status.OK, get(client, 40));
      assertEquals(1, large.loads);
      fast.fails = false;
      harness.nowNs += 1_000_000_000L;
      rounds(harness);
      assertEquals(0, harness.counters.get(Counter.GAUGE_SSD_SLOTS_IN_FLIGHT));
    }
  }

  private static Status get(IndexHarness.Client client, long key) throws ProtocolViolation {
    client.sendKeys(Verb.ACQUIRE, key, 1);
    return client.await().first();
  }
}

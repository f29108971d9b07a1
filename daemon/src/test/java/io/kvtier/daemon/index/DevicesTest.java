package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.device.DeviceLine;
import io.kvtier.daemon.index.session.ProgressWord;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaGpu;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Blocks of regions as the index sees them, round by round. */
class DevicesTest {
  private static final int GRIDS = 8192;

  private static final int HOST = 0;
  private static final int BLOCKS = 8;
  private static final int SLOTS = 16;

  /** Keeps what it is given until it is told to work. */
  private static final class HeldPipeline implements Pipeline {
    private final ArrayDeque<Transfer> held = new ArrayDeque<>();
    private boolean isOpen;

    @Override
    public boolean offer(Transfer transfer) {
      held.add(transfer);
      return true;
    }

    @Override
    public int collect(Consumer<Transfer> finished) {
      int count = isOpen ? held.size() : 0;
      for (int i = 0; i < count; i++) {
        Transfer transfer = held.remove();
        Checksums.run(transfer);
        finished.accept(transfer);
      }
      return count;
    }

    @Override
    public boolean hasFinished() {
      return isOpen && !held.isEmpty();
    }

    @Override
    public int inFlight() {
      return held.size();
    }

    @Override
    public void close() {}
  }

  private Path folder = Path.of("");
  private final HeldPipeline checksums = new HeldPipeline();

  @BeforeEach
  void makeFolder() throws IOException {
    // Handles are short.
    folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvd");
    byte[] noise = new byte[BLOCKS * IndexHarness.SLOT_BYTES];
    new Random(1).nextBytes(noise);
    Files.write(folder.resolve("kv"), noise);
    Files.write(folder.resolve("event"), new byte[4]);
  }

  @AfterEach
  void removeFolder() throws IOException {
    for (String name : List.of("kv", "event", "fail")) {
      Files.deleteIfExists(folder.resolve(name));
    }
    Files.delete(folder);
  }

  /** Two layers of a tensor each, half a slot of a block. */
  private String region() {
    int half = IndexHarness.SLOT_BYTES / 2;
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "layers=2",
        "blocks=" + BLOCKS,
        "block_tokens=1",
        "part=kv:BD:" + BLOCKS + "," + half + ":" + half + ",1:1",
        "allocation=" + FileGpu.handle(folder.resolve("kv")),
        "tensor=0+0",
        "tensor=0+" + BLOCKS * half,
        "event=" + FileGpu.handle(folder.resolve("event")));
  }

  private byte[] block(int number) throws IOException {
    byte[] all = Files.readAllBytes(folder.resolve("kv"));
    int half = IndexHarness.SLOT_BYTES / 2;
    byte[] block = Arrays.copyOf(new byte[0], 2 * half);
    System.arraycopy(all, number * half, block, 0, half);
    System.arraycopy(all, (BLOCKS + number) * half, block, half, half);
    return block;
  }

  private IndexHarness harness(FileGpu gpu) throws IOException {
    return new IndexHarness(new IndexHarness.Settings(1, SLOTS).checksums(checksums, 0).gpu(gpu));
  }

  private static void work(IndexHarness harness, int rounds) {
    for (int i = 0; i < rounds; i++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  private static void workUntil(IndexHarness harness, java.util.function.BooleanSupplier done) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!done.getAsBoolean() && System.nanoTime() < end) {
      work(harness, 1);
    }
    assertTrue(done.getAsBoolean(), harness.agent::toString);
  }

  @Test
  void onboard_checksumStillToBeMade_isCopiedAtOnce() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      assertEquals(1, checksums.inFlight());
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 7));
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.EXISTS, client.await().first());
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 5);
      assertEquals(Status.OK, client.await().first());
      assertArrayEquals(block(2), block(5));
      // Who reads the slot itself gets the checksum with it, and so waits.
      client.sendKeys(Verb.ACQUIRE, 7, 1);
      work(harness, 3);
      assertFalse(client.hasAnswer());
      checksums.isOpen = true;
      assertEquals(Status.OK, client.await().first());
      assertEquals(1, harness.counters.get(Counter.PUT_BLOCKS));
    }
  }

  @Test
  void offload_gpuOnANumaNode_takesSlotsOfThatNode_andOthersWhenItHasNone()
      throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    BitSet cpus = new BitSet();
    cpus.set(0);
    NumaTopology twoNodes =
        new NumaTopology(
            List.of(
                new NumaNode(0, cpus, true, 1 << 30, true),
                new NumaNode(1, cpus, true, 1 << 30, true)),
            List.of(new NumaGpu("0000:01:00.0", 0), new NumaGpu(FileGpu.PCI_ID, 1)),
            Map.of());
    NumaHomes homes =
        new NumaHomes(
            NumaPlan.of(twoNodes, 4, 2 * IndexHarness.SLOT_BYTES),
            new NumaFiles(),
            NumaCalls.LINUX);
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(4, 2)
                .checksums(checksums, 0)
                .gpu(new FileGpu(folder, 0))
                .numa(homes))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      List<Integer> nodes = new ArrayList<>();
      for (int i = 0; i < BLOCKS; i++) {
        client.sendBlock(Verb.OFFLOAD, region, 0, 0, i, i);
        assertEquals(Status.OK, client.await().first());
        nodes.add(homes.all().get(homes.ofSlab(slabOf(harness, block(i)))).node());
      }
      assertEquals(List.of(1, 1, 1, 1, 0, 0, 0, 0), nodes);
    }
  }

  /** The slab of two slots in which a block is. */
  private static int slabOf(IndexHarness harness, byte[] block) {
    MemorySegment wanted = MemorySegment.ofArray(block);
    for (long at = 0; at < harness.slabs().byteSize(); at += IndexHarness.SLOT_BYTES) {
      if (harness.slabs().asSlice(at, IndexHarness.SLOT_BYTES).mismatch(wanted) == -1) {
        return (int) (at / IndexHarness.SLOT_BYTES / 2);
      }
    }
    throw new AssertionError("the block is in no slab");
  }

  @Test
  void acquire_namespaceHasARegion_aLoadIsExpectedForAsLongAsItWouldTake()
      throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client engine = harness.open();
      engine.register();
      engine.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.MISS, engine.await().first());
      int region = engine.registerRegion(region());
      for (int key = 0; key < 4; key++) {
        engine.sendBlock(Verb.OFFLOAD, region, 0, 0, key, 2);
        assertEquals(Status.OK, engine.await().first());
      }
      assertFalse(harness.agent.isLoadExpected(harness.nowNs), "nothing was leased");
      engine.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.MISS, engine.await().first());
      assertFalse(harness.agent.isLoadExpected(harness.nowNs), "what is not there is not loaded");

      engine.sendKeys(Verb.ACQUIRE, 0, 4);
      assertEquals(Status.OK, engine.await().first());
      long copiesNs = 4 * IndexHarness.SLOT_BYTES / 50;
      assertTrue(harness.agent.isLoadExpected(harness.nowNs));
      assertTrue(harness.agent.isLoadExpected(harness.nowNs + copiesNs - 1));
      assertFalse(harness.agent.isLoadExpected(harness.nowNs + copiesNs));
    }
  }

  @Test
  void delete_checksumStillToBeMade_blockGoes() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      assertEquals(Status.OK, client.ask(Verb.DELETE, 7));
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 7));
      checksums.isOpen = true;
      workUntil(harness, () -> harness.agent.isIdle());
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 7));
    }
  }

  @Test
  void close_inMidCopy_slotAndRegionStayUntilTheCopyIsBack() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    checksums.isOpen = true;
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client stays = harness.open();
      stays.register();
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      gpu.hold();
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      client.sendBlock(Verb.OFFLOAD, region, 1, 0, 8, 3);
      workUntil(harness, () -> gpu.waiting() > 0);
      assertTrue(harness.agent.offerClose(client.session));
      work(harness, 5);
      assertEquals(1, gpu.mappings(), "closed under a copy");
      assertEquals(Status.PENDING, stays.ask(Verb.LOOKUP, 7));
      gpu.letGo();
      workUntil(harness, () -> gpu.mappings() == 0 && harness.agent.isIdle());
      assertEquals(Status.MISS, stays.ask(Verb.LOOKUP, 8), "half a block stayed");
      assertEquals(0, slotsInUse(harness, stays));
    }
  }

  @Test
  void close_copyWaitsForAnEvent_isGivenUpAtOnce() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client stays = harness.open();
      stays.register();
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 1, 7, 2);
      work(harness, 5);
      assertTrue(harness.agent.offerClose(client.session));
      workUntil(harness, () -> gpu.mappings() == 0 && harness.agent.isIdle());
      assertEquals(0, slotsInUse(harness, stays));
    }
  }

  @Test
  void unregister_copiesUnderWay_isAnsweredWhenTheyAreOver() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    checksums.isOpen = true;
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      gpu.hold();
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      workUntil(harness, () -> gpu.waiting() > 0);
      client.send(Verb.UNREGISTER_REGION, 0, region, 0);
      work(harness, 5);
      assertFalse(client.hasAnswer());
      assertEquals(1, gpu.mappings(), "closed under a copy");
      gpu.letGo();
      assertEquals(Verb.OFFLOAD, client.await().verb());
      assertEquals(Verb.UNREGISTER_REGION, client.await().verb());
      assertEquals(0, gpu.mappings());
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
      assertEquals(Status.INVALID_ARGUMENT, client.await().status());
    }
  }

  @Test
  void onboard_noKeysAndAProgressWord_isAnswered() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlocks(Verb.ONBOARD, region, 0, 0, 1, 0, 0, 0);
      assertEquals(Status.OK, client.await().status());
      client.sendBlocks(Verb.OFFLOAD, region, 0, 0, 1, 0, 0, 0);
      assertEquals(Status.OK, client.await().status());
    }
  }

  @Test
  void onboard_ofASlotThatALateWriterMayWrite_isAMiss() throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    Claim late = new Claim(0, 0, IndexHarness.SLOT_BYTES, new ProcessId(77, 1));
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 1)
                .checksums(checksums, 0)
                .gpu(new FileGpu(folder, 0))
                .late(late))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.put(7, Checksums.of(MemorySegment.ofArray(new byte[IndexHarness.SLOT_BYTES])), true);
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
      assertEquals(Status.MISS, client.await().first(), "a GPU verifies nothing");
      client.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.OK, client.await().first(), "who copies it verifies what was copied");
      harness.gone.add(late.writer());
      harness.nowNs += 1_000_000_000L;
      int ignored = harness.agent.doWork();
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
    }
  }

  @Test
  void offload_doesNotTakeASlotThatALateWriterMayWrite() throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    Claim late = new Claim(0, 0, IndexHarness.SLOT_BYTES, new ProcessId(77, 1));
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 2)
                .checksums(checksums, 0)
                .gpu(new FileGpu(folder, 0))
                .late(late))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      workUntil(harness, () -> harness.agent.isIdle());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 8, 3);
      assertEquals(Status.OK, client.await().first());
      workUntil(harness, () -> harness.agent.isIdle());
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 8));
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 7), "only one slot is for such blocks");
    }
  }

  @Test
  void onboard_cancelledAgainAndAgain_blockIsLookedAtOnce() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      // The client may write to the slot of what it has put.
      client.put(7, Checksums.of(MemorySegment.ofArray(new byte[IndexHarness.SLOT_BYTES])));
      for (int i = 0; i < 20; i++) {
        client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
        client.send(Verb.CANCEL, 0, 0, 0);
        assertEquals(Status.CANCELLED, client.await().first());
        assertEquals(Verb.CANCEL, client.await().verb());
      }
      assertEquals(1, checksums.inFlight());
      assertEquals(1, harness.directory().uses(0));
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
      work(harness, 3);
      assertFalse(client.hasAnswer());
      checksums.isOpen = true;
      assertEquals(Status.OK, client.await().first());
      assertArrayEquals(new byte[IndexHarness.SLOT_BYTES], block(2));
      checksums.isOpen = false;
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 2);
      work(harness, 3);
      assertEquals(1, checksums.inFlight(), "not looked at again");
    }
  }

  @Test
  void onboard_takenOver_isLookedAtOnce() throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      workUntil(harness, () -> harness.counters.get(Counter.PUT_BLOCKS) == 1);
      checksums.isOpen = false;
      harness.directory().copies().set(CopyTable.TAKEN_OVER, HOST, 0, true);
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 5);
      work(harness, 3);
      assertFalse(client.hasAnswer());
      checksums.isOpen = true;
      assertEquals(Status.OK, client.await().first());
      assertArrayEquals(block(2), block(5));
      checksums.isOpen = false;
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 6);
      assertEquals(Status.OK, client.await().first());
      assertArrayEquals(block(2), block(6));
      assertEquals(0, checksums.inFlight());
    }
  }

  @Test
  void onboard_takenOverAndDamaged_isAMiss() throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      workUntil(harness, () -> harness.counters.get(Counter.PUT_BLOCKS) == 1);
      harness.directory().copies().set(CopyTable.TAKEN_OVER, HOST, 0, true);
      harness.directory().setChecksum(0, ~harness.directory().checksum(0));
      client.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 5);
      assertEquals(Status.MISS, client.await().first());
      assertEquals(1, harness.counters.get(Counter.CORRUPT));
    }
  }

  @Test
  void offload_ofBytesThatWaitForTheirSlot_isOnItsWay_howeverOften()
      throws IOException, ProtocolViolation {
    checksums.isOpen = true;
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 1)
                .blocks(1 << 17)
                .checksums(checksums, 0)
                .gpu(new FileGpu(folder, 0)))) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.register();
      int region = client.registerRegion(region());
      client.sendKeys(Verb.RESERVE, 6, 1);
      long reserved = client.work().ids().getFirst();
      int requests = 65536 / Protocol.KEYS_MAX + 1;
      for (int i = 0; i < requests; i++) {
        client.sendBlocks(Verb.OFFLOAD, region, 0, 0, 0, 7, 2, Protocol.KEYS_MAX);
        var _ = harness.agent.doWork();
      }
      client.sendIds(Verb.ABORT, 0, 1, reserved);
      for (int i = 0; i < requests + 1; i++) {
        Status last = client.await().last();
        assertTrue(last == Status.PENDING || last == Status.OK, "" + last);
      }
      assertEquals(0, harness.counters.get(Counter.PUT_BUSY));
      assertEquals(Status.OK, client.ask(Verb.LOOKUP, 7));
    }
  }

  /** A region of one block, of which no two bytes lie side by side. */
  private String scattered(int tokens) {
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "layers=1",
        "blocks=1",
        "block_tokens=" + tokens,
        "part=kv:BND:1," + tokens + ",1:" + 2 * tokens + ",2,1:1",
        "allocation=" + FileGpu.handle(folder.resolve("kv")),
        "tensor=0+0");
  }

  /**
   * A region of two blocks. A grid has three of the four loops over a block, so each token is one.
   */
  private String inManyGrids() {
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "layers=2",
        "blocks=2",
        "block_tokens=" + GRIDS,
        "order=NCLD",
        "part=kv:LBCNHD:2,2,2," + GRIDS + ",2,1:131072,65536,32768,4,2,1:1",
        "allocation=" + FileGpu.handle(folder.resolve("kv")),
        "tensor=0+0");
  }

  @Test
  void register_blocksInTooManyPieces_isRefused() throws IOException, ProtocolViolation {
    int most = 1 << 16;
    Files.write(folder.resolve("kv"), new byte[4 * most]);
    try (IndexHarness harness =
        new IndexHarness(new IndexHarness.Settings(1, 64).gpu(new FileGpu(folder, 0)))) {
      IndexHarness.Client client = harness.open();
      assertEquals(Status.OK, client.registerAs("scattered", 2L * most).status());
      client.sendText(Verb.REGISTER_REGION, 0, scattered(2 * most));
      assertEquals(Status.INVALID_ARGUMENT, client.await().status());
    }
    try (IndexHarness harness =
        new IndexHarness(new IndexHarness.Settings(1, 64).gpu(new FileGpu(folder, 0)))) {
      IndexHarness.Client client = harness.open();
      assertEquals(Status.OK, client.registerAs("scattered", most).status());
      int first = client.registerRegion(scattered(most));
      for (int i = 1; i < 16; i++) {
        int ignored = client.registerRegion(scattered(most));
      }
      client.sendText(Verb.REGISTER_REGION, 0, scattered(most));
      assertEquals(Status.INVALID_ARGUMENT, client.await().status());
      client.send(Verb.UNREGISTER_REGION, 0, first, 0);
      assertEquals(Status.OK, client.await().status());
      int again = client.registerRegion(scattered(most));
      assertTrue(again > 0);
    }
  }

  @Test
  void offload_manyRunsInFewGrids_areAllUnderWay() throws IOException, ProtocolViolation {
    int most = 1 << 16;
    Files.write(folder.resolve("kv"), new byte[4 * most]);
    checksums.isOpen = true;
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness =
        new IndexHarness(new IndexHarness.Settings(1, 1024).checksums(checksums, 0).gpu(gpu))) {
      IndexHarness.Client client = harness.open(1 << 20);
      assertEquals(Status.OK, client.registerAs("scattered", most).status());
      int region = client.registerRegion(scattered(most));
      gpu.hold();
      for (int key = 0; key < 40; key++) {
        client.sendBlock(Verb.OFFLOAD, region, 0, 0, key, 0);
      }
      work(harness, 100);
      assertEquals(40, harness.agent.copiesInFlight());
      gpu.letGo();
      for (int key = 0; key < 40; key++) {
        assertEquals(Status.OK, client.await().first());
      }
    }
  }

  @Test
  void offload_moreEntriesThanMayBeUnderWay_comeWhenOthersAreOver()
      throws IOException, ProtocolViolation {
    int bytes = 8 * GRIDS;
    Files.write(folder.resolve("kv"), new byte[4 * bytes]);
    checksums.isOpen = true;
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness =
        new IndexHarness(new IndexHarness.Settings(1, 1024).checksums(checksums, 0).gpu(gpu))) {
      IndexHarness.Client client = harness.open(1 << 20);
      assertEquals(Status.OK, client.registerAs("grids", bytes).status());
      int region = client.registerRegion(inManyGrids());
      for (Verb verb : List.of(Verb.OFFLOAD, Verb.ONBOARD)) {
        gpu.hold();
        for (int key = 0; key < 40; key++) {
          client.sendBlock(verb, region, 0, 0, key, 0);
        }
        work(harness, 100);
        assertEquals(DeviceLine.ENTRIES_MAX / GRIDS, harness.agent.copiesInFlight());
        gpu.letGo();
        for (int key = 0; key < 40; key++) {
          assertEquals(Status.OK, client.await().first());
        }
        assertEquals(0, harness.agent.copiesInFlight());
      }
    }
  }

  @Test
  void onboard_manyEntriesWaitForAnEvent_holdUpNoOthers() throws IOException, ProtocolViolation {
    int bytes = 8 * GRIDS;
    Files.write(folder.resolve("kv"), new byte[4 * bytes]);
    checksums.isOpen = true;
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 1024)
                .checksums(checksums, 0)
                .gpu(new FileGpu(folder, 0)))) {
      IndexHarness.Client waits = harness.open();
      assertEquals(Status.OK, waits.registerAs("grids", bytes).status());
      String event = "\nevent=" + FileGpu.handle(folder.resolve("event"));
      int region = waits.registerRegion(inManyGrids() + event);
      waits.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 0);
      assertEquals(Status.OK, waits.await().first());
      for (int i = 0; i < 40; i++) {
        waits.sendBlock(Verb.ONBOARD, region, 0, 1, 7, 0);
      }
      work(harness, 100);
      assertEquals(DeviceLine.ENTRIES_MAX / GRIDS / 2, harness.agent.copiesInFlight());
      waits.sendBlock(Verb.ONBOARD, region, 0, 0, 7, 0);
      assertEquals(Status.OK, waits.await().first());
      Files.write(folder.resolve("event"), new byte[] {1, 0, 0, 0}, StandardOpenOption.WRITE);
      for (int i = 0; i < 40; i++) {
        assertEquals(Status.OK, waits.await().first());
      }
      assertEquals(0, harness.agent.copiesInFlight());
    }
  }

  private static int word(IndexHarness.Client client, int number) {
    return Words.getIntAcquire(client.memory(), wordAt(number));
  }

  private static long wordAt(int number) {
    return SessionRegionDescriptor.PROGRESS_OFFSET + 4L * (number - 1);
  }

  /** Publishes a load of key 7 into block 5 whose two layers word 3 counts. */
  private static void load(IndexHarness.Client client, int region, int event, int target)
      throws ProtocolViolation {
    client.sendBlocks(Verb.ONBOARD, region, 2, event, 3, 7, target, 1);
  }

  @Test
  void onboard_howeverItEnds_itsWordHasCountedAllLayers() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      // It counts on from whatever is there, and over the end of numbers.
      int counted = -3;
      Words.putIntRelease(client.memory(), wordAt(3), counted);
      load(client, region, 0, 5);
      assertEquals(Status.MISS, client.await().first());
      assertEquals(counted += 2, word(client, 3), "nothing to copy");
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      load(client, region, 0, 5);
      assertEquals(Status.OK, client.await().first());
      assertEquals(counted += 2, word(client, 3), "all copied");
      load(client, region, 0, BLOCKS);
      assertEquals(Status.INVALID_ARGUMENT, client.await().status());
      assertEquals(counted += 2, word(client, 3), "no such block");
      load(client, region + 1, 0, 5);
      assertEquals(Status.INVALID_ARGUMENT, client.await().status());
      assertEquals(counted += 2, word(client, 3), "no such region");
      load(client, region, 1, 5);
      work(harness, 5);
      assertEquals(counted, word(client, 3), "waits for an event");
      client.send(Verb.CANCEL, 0, 1, 0);
      client.send(Verb.CANCEL, 0, 0, 0);
      assertEquals(Status.CANCELLED, awaitVerb(client, Verb.ONBOARD).first());
      assertEquals(counted += 2, word(client, 3), "cancelled");
      load(client, region, 1, 5);
      work(harness, 5);
      assertEquals(counted, word(client, 3));
      harness.nowNs += 3_600_000_000_000L;
      assertEquals(Status.DEADLINE, awaitVerb(client, Verb.ONBOARD).first());
      assertEquals(counted += 2, word(client, 3), "too late");
      Files.createFile(folder.resolve("fail"));
      load(client, region, 0, 5);
      assertEquals(Status.IO_ERROR, client.await().first());
      assertEquals(counted += 2, word(client, 3), "the GPU failed");
      for (int other = 1; other <= SessionRegionDescriptor.PROGRESS_WORDS; other++) {
        assertTrue(other == 3 || word(client, other) == 0, "word " + other);
      }
    }
  }

  private static IndexHarness.Answer awaitVerb(IndexHarness.Client client, Verb verb)
      throws ProtocolViolation {
    IndexHarness.Answer answer = client.await();
    while (answer.verb() != verb) {
      answer = client.await();
    }
    return answer;
  }

  @Test
  void onboard_namespaceIsNotRegistered_itsWordHasCountedAllLayers()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      load(client, 1, 0, 5);
      assertEquals(Status.NAMESPACE_UNKNOWN, client.await().status());
      assertEquals(2, word(client, 3));
    }
  }

  @Test
  void onboard_clientHasGivenItUp_itsWordIsNotTakenBack() throws IOException, ProtocolViolation {
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness = harness(gpu)) {
      IndexHarness.Client client = harness.open();
      client.register();
      int region = client.registerRegion(region());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      assertEquals(Status.OK, client.await().first());
      gpu.hold();
      load(client, region, 0, 5);
      workUntil(harness, () -> gpu.waiting() > 0);
      Words.putIntRelease(client.memory(), wordAt(3), 20);
      gpu.letGo();
      assertEquals(Status.OK, client.await().first());
      assertEquals(20, word(client, 3));
    }
  }

  @Test
  void progressWord_counts_neverBackAndNeverBeyondTheEnd() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(new FileGpu(folder, 0))) {
      IndexHarness.Client client = harness.open();
      Words.putIntRelease(client.memory(), wordAt(256), Integer.MAX_VALUE - 1);
      ProgressWord progress = new ProgressWord();
      progress.begin(client.session, 256, 4);
      progress.show(client.session, 0);
      assertEquals(Integer.MAX_VALUE - 1, word(client, 256));
      progress.show(client.session, 3);
      assertEquals(Integer.MIN_VALUE + 1, word(client, 256));
      progress.show(client.session, 9);
      assertEquals(Integer.MIN_VALUE + 2, word(client, 256));
      progress.end(client.session);
      progress.end(client.session);
      assertEquals(Integer.MIN_VALUE + 2, word(client, 256));
    }
  }

  private static long slotsInUse(IndexHarness harness, IndexHarness.Client client)
      throws ProtocolViolation {
    client.send(Verb.STATS, 0, 0, 0);
    assertEquals(Status.OK, client.await().status());
    return harness.counters.get(Counter.GAUGE_HOST_SLOTS_TOTAL)
        - harness.counters.get(Counter.GAUGE_HOST_SLOTS_FREE);
  }
}

package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.device.Advertisements;
import io.kvtier.daemon.index.device.DeviceLine;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.gpu.DeviceTransfer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.function.BooleanSupplier;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Blocks that engines advertise in their regions, as the index sees them. */
class PeersTest {
  private static final int BLOCKS = 8;
  private static final int HALF = IndexHarness.SLOT_BYTES / 2;

  /** Two engines on one GPU, and one on its sibling. */
  private static final String FIRST = "kv";

  private static final String SECOND = "kv-second";
  private static final String OTHER = "kv-other";

  /** A get of many blocks is so many transfers. */
  private static final int TRANSFERS_OF_LONG_GET = 8;

  private static final int LONG_GET_BLOCKS = TRANSFERS_OF_LONG_GET * DeviceTransfer.BLOCKS_MAX;

  private Path folder = Path.of("");
  private FileGpu gpu = new FileGpu(folder, 0);
  private FileGpu sibling = gpu;

  @BeforeEach
  void makeFolder() throws IOException {
    // Handles are short.
    folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvp");
    gpu = new FileGpu(folder, 0);
    sibling = gpu.addSibling();
    int seed = 0;
    for (String name : new String[] {FIRST, SECOND, OTHER}) {
      byte[] noise = new byte[BLOCKS * IndexHarness.SLOT_BYTES];
      new Random(++seed).nextBytes(noise);
      Files.write(folder.resolve(name), noise);
    }
    Files.write(folder.resolve("event"), new byte[4]);
  }

  @AfterEach
  void removeFolder() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }

  /** Two layers of a tensor each, half a slot of a block. */
  private String region(String name) {
    return String.join(
        "\n",
        "device=" + (name.equals(OTHER) ? FileGpu.OTHER_UUID : FileGpu.UUID),
        "layers=2",
        "blocks=" + BLOCKS,
        "block_tokens=1",
        "part=kv:BD:" + BLOCKS + "," + HALF + ":" + HALF + ",1:1",
        "allocation=" + FileGpu.handle(folder.resolve(name)),
        "tensor=0+0",
        "tensor=0+" + BLOCKS * HALF,
        "event=" + FileGpu.handle(folder.resolve("event")));
  }

  /** The same bytes as one layer: blocks of another form. */
  private String regionOfOneLayer(String name) {
    return String.join(
        "\n",
        "device=" + (name.equals(OTHER) ? FileGpu.OTHER_UUID : FileGpu.UUID),
        "layers=1",
        "blocks=" + BLOCKS,
        "block_tokens=1",
        "part=kv:BD:" + BLOCKS + "," + 2 * HALF + ":" + 2 * HALF + ",1:1",
        "allocation=" + FileGpu.handle(folder.resolve(name)),
        "tensor=0+0");
  }

  private byte[] block(String name, int number) throws IOException {
    byte[] all = Files.readAllBytes(folder.resolve(name));
    byte[] block = new byte[2 * HALF];
    System.arraycopy(all, number * HALF, block, 0, HALF);
    System.arraycopy(all, (BLOCKS + number) * HALF, block, HALF, HALF);
    return block;
  }

  /** The engine has other tokens there now. */
  private void overwrite(String name, int number) throws IOException {
    byte[] all = Files.readAllBytes(folder.resolve(name));
    Arrays.fill(all, number * HALF, (number + 1) * HALF, (byte) 1);
    Arrays.fill(all, (BLOCKS + number) * HALF, (BLOCKS + number + 1) * HALF, (byte) 2);
    Files.write(folder.resolve(name), all, StandardOpenOption.WRITE);
  }

  private void setEvent() throws IOException {
    Files.write(folder.resolve("event"), new byte[] {1, 0, 0, 0}, StandardOpenOption.WRITE);
  }

  private IndexHarness harness() throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(1, 16)
            .checksums(new IndexHarness.NoPipeline(), 1 << 20)
            .gpu(gpu));
  }

  /** An engine whose region is open. */
  private record Engine(IndexHarness.Client client, int region) {}

  private static IndexHarness.Client client(IndexHarness harness)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open();
    client.register();
    return client;
  }

  private Engine engine(IndexHarness harness, String name) throws IOException, ProtocolViolation {
    IndexHarness.Client client = client(harness);
    return new Engine(client, client.registerRegion(region(name)));
  }

  private static Status advertise(Engine engine, long key, int number) throws ProtocolViolation {
    return engine.client.advertise(engine.region, 0, new long[] {key}, number);
  }

  private static void sendGet(Engine engine, int event, long key, int number)
      throws ProtocolViolation {
    engine.client.sendBlock(Verb.ONBOARD, engine.region, 0, event, key, number);
  }

  /** Gets of key 7 that are {@link #TRANSFERS_OF_LONG_GET} transfers each, one a round. */
  private static void sendLongGets(IndexHarness harness, Engine engine, int event, int gets)
      throws ProtocolViolation {
    for (int i = 0; i < gets; i++) {
      engine.client.sendBlocks(Verb.ONBOARD, engine.region, 0, event, 0, 7, 5, LONG_GET_BLOCKS);
      work(harness, 1);
    }
  }

  private static void awaitAllOk(Engine engine, int answers) throws ProtocolViolation {
    for (int i = 0; i < answers; i++) {
      assertEquals(Status.OK, engine.client.await().first());
    }
  }

  private static Status get(Engine engine, long key, int number) throws ProtocolViolation {
    sendGet(engine, 0, key, number);
    return engine.client.await().first();
  }

  private static void put(Engine engine, long key, int number) throws ProtocolViolation {
    engine.client.sendBlock(Verb.OFFLOAD, engine.region, 0, 0, key, number);
    assertEquals(Status.OK, engine.client.await().first());
  }

  private static Status revoke(Engine engine, long key) throws ProtocolViolation {
    engine.client.sendRevoke(engine.region, key);
    return engine.client.await().first();
  }

  private static void work(IndexHarness harness, int rounds) {
    for (int i = 0; i < rounds; i++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  private static void workUntil(IndexHarness harness, BooleanSupplier done) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!done.getAsBoolean() && System.nanoTime() < end) {
      work(harness, 1);
    }
    assertTrue(done.getAsBoolean(), harness.agent::toString);
  }

  private static long hits(IndexHarness harness) {
    return harness.counters.get(Counter.HITS_GPU);
  }

  @Test
  void onboard_siblingAdvertises_isCopiedFromThere() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.MISS, get(getter, 7, 5));
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.OK, get(getter, 7, 5));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
      assertEquals(1, hits(harness));
      assertEquals(0, harness.counters.get(Counter.HITS_HOST));
      // No tier has it, and nobody gets a lease of it.
      assertEquals(Status.MISS, getter.client.ask(Verb.LOOKUP, 7));
      assertEquals(Status.MISS, getter.client.ask(Verb.ACQUIRE, 7));
      assertEquals(Status.EXISTS, advertise(owner, 7, 2));
      // Who asks would go on reading the first.
      assertEquals(Status.BUSY, advertise(owner, 7, 3));
    }
  }

  @Test
  void advertise_groupsOfAllSixteenBits_comeAndGo() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      for (int group : new int[] {0, 32_767, 32_768, 65_535}) {
        for (int key = 0; key < 16; key++) {
          owner.client.sendAdvertise(owner.region, group, 0, new long[] {key}, new int[] {key % 8});
          assertEquals(Status.OK, owner.client.await().first());
        }
      }
      assertTrue(harness.agent.offerClose(owner.client.session));
      workUntil(harness, () -> harness.agent.isIdle() && gpu.mappings() == 0);
    }
  }

  @Test
  void onboard_alsoInMemory_isCopiedFromTheSibling() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      put(owner, 7, 2);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.OK, get(getter, 7, 5));
      assertEquals(1, hits(harness));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
    }
  }

  @Test
  void onboard_siblingsAreApart_goesByTheHost() throws IOException, ProtocolViolation {
    gpu.part();
    sibling.part();
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine other = engine(harness, OTHER);
      Engine same = engine(harness, SECOND);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.MISS, get(other, 7, 5));
      put(owner, 7, 2);
      assertEquals(Status.OK, get(other, 7, 5));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
      assertEquals(0, hits(harness));
      // A GPU reaches itself.
      assertEquals(Status.OK, get(same, 7, 5));
      assertArrayEquals(block(FIRST, 2), block(SECOND, 5));
      assertEquals(1, hits(harness));
    }
  }

  @Test
  void onboard_siblingComesIntoUseLater_seesWhatWasShared() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, get(getter, 7, 5));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
    }
  }

  @Test
  void onboard_blocksOfAnotherForm_areNoMatch() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      IndexHarness.Client client = client(harness);
      Engine getter = new Engine(client, client.registerRegion(regionOfOneLayer(OTHER)));
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.MISS, get(getter, 7, 5));
      assertEquals(0, hits(harness));
    }
  }

  @Test
  void onboard_someOfSiblingsSomeInMemory_eachComesFromItsPlace()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine first = engine(harness, FIRST);
      Engine second = engine(harness, SECOND);
      Engine getter = engine(harness, OTHER);
      put(first, 1, 1);
      assertEquals(Status.OK, advertise(first, 2, 2));
      assertEquals(Status.OK, advertise(second, 3, 3));
      put(second, 4, 4);
      long[] keys = {1, 2, 3, 4, 5};
      for (int i = 0; i < keys.length; i++) {
        sendGet(getter, 0, keys[i], i);
      }
      int copied = 0;
      for (int i = 0; i < keys.length; i++) {
        copied += getter.client.await().first() == Status.OK ? 1 : 0;
      }
      assertEquals(keys.length - 1, copied);
      assertArrayEquals(block(FIRST, 1), block(OTHER, 0));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 1));
      assertArrayEquals(block(SECOND, 3), block(OTHER, 2));
      assertArrayEquals(block(SECOND, 4), block(OTHER, 3));
      assertEquals(2, hits(harness));
    }
  }

  @Test
  void onboard_copyFails_comesFromMemory() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      put(owner, 7, 2);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sibling.breakKernel();
      assertEquals(Status.OK, get(getter, 7, 5));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
      assertEquals(0, hits(harness));
      assertEquals(1, harness.counters.get(Counter.HITS_HOST));
      // From then on nobody tries again.
      assertEquals(Status.OK, get(getter, 7, 6));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 6));
      assertEquals(Status.OK, revoke(owner, 7));
    }
  }

  @Test
  void onboard_copyFailsAndNoTierHasIt_isAMiss() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sibling.breakKernel();
      assertEquals(Status.MISS, get(getter, 7, 5));
    }
  }

  @Test
  void onboard_deadlinePassesBeforeTheCopy_isCountedAsAMiss()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sendGet(getter, 1, 7, 5);
      work(harness, 5);
      harness.nowNs += 6_000_000_000L;
      assertEquals(Status.DEADLINE, getter.client.await().first());
      assertEquals(1, harness.counters.get(Counter.ACQUIRE_BLOCKS));
      assertEquals(1, harness.counters.get(Counter.MISSES));
      assertEquals(0, hits(harness));
    }
  }

  @Test
  void revoke_copyUnderWay_isAnsweredWhenItIsOver() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      byte[] advertised = block(FIRST, 2);
      sibling.hold();
      sendGet(getter, 0, 7, 5);
      workUntil(harness, () -> sibling.waiting() > 0);
      owner.client.sendRevoke(owner.region, 7);
      work(harness, 5);
      assertFalse(owner.client.hasAnswer(), "answered under a copy");
      // Nobody else gets it any more, and to say it again does not end the wait.
      assertEquals(Status.BUSY, revoke(owner, 7));
      assertEquals(Status.BUSY, advertise(owner, 7, 3));
      assertNull(getter.client.lookup(7).holder());
      sendGet(getter, 0, 7, 6);
      assertEquals(Status.MISS, getter.client.await().first());
      // Its deadline changes nothing.
      harness.nowNs += 3_600_000_000_000L;
      work(harness, 5);
      assertFalse(owner.client.hasAnswer(), "answered under a copy");
      sibling.letGo();
      assertEquals(Status.OK, owner.client.await().first());
      overwrite(FIRST, 2);
      assertEquals(Status.OK, getter.client.await().first());
      assertArrayEquals(advertised, block(OTHER, 5));
      assertEquals(Status.MISS, revoke(owner, 7));
    }
  }

  @Test
  void revoke_copyHasNotBegun_comesFromMemory() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      put(owner, 7, 2);
      byte[] advertised = block(FIRST, 2);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sendGet(getter, 1, 7, 5);
      work(harness, 5);
      // It waits for an event of the getter's: its owner does not.
      assertEquals(Status.OK, revoke(owner, 7));
      overwrite(FIRST, 2);
      work(harness, 5);
      assertFalse(getter.client.hasAnswer());
      setEvent();
      assertEquals(Status.OK, getter.client.await().first());
      assertArrayEquals(advertised, block(OTHER, 5));
      assertEquals(0, hits(harness));
    }
  }

  @Test
  void revoke_copyHasNotBegunAndNoTierHasIt_isAMiss() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sendGet(getter, 1, 7, 5);
      work(harness, 5);
      assertEquals(Status.OK, revoke(owner, 7));
      assertEquals(Status.MISS, getter.client.await().first());
    }
  }

  @Test
  void revoke_copiesAreInLine_leavesOutWhatWasNotHandedOver()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sibling.hold();
      // More transfers than there can be: the last ones end in line.
      int gets = DeviceLine.TRANSFERS / TRANSFERS_OF_LONG_GET + 8;
      sendLongGets(harness, getter, 0, gets);
      owner.client.sendRevoke(owner.region, 7);
      work(harness, 5);
      assertFalse(owner.client.hasAnswer());
      sibling.letGo();
      assertEquals(Status.OK, owner.client.await().first());
      for (int i = 0; i < gets; i++) {
        Status first = getter.client.await().first();
        assertTrue(first == Status.OK || first == Status.MISS, first::toString);
      }
      assertEquals(0, harness.agent.copiesInFlight());
      workUntil(harness, () -> harness.agent.isIdle());
    }
  }

  @Test
  void onboard_hundredsOfCopiesWaitForAnEvent_holdUpNoOthers()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine waits = engine(harness, FIRST);
      Engine besides = engine(harness, SECOND);
      Engine elsewhere = engine(harness, OTHER);
      put(waits, 7, 2);
      byte[] expected = block(FIRST, 2);
      int gets = DeviceLine.TRANSFERS / TRANSFERS_OF_LONG_GET + 8;
      sendLongGets(harness, waits, 1, gets);
      assertEquals(DeviceLine.TRANSFERS / 2, harness.agent.copiesInFlight());
      assertEquals(Status.OK, get(elsewhere, 7, 5));
      assertArrayEquals(expected, block(OTHER, 5));
      assertEquals(Status.OK, get(besides, 7, 5));
      assertArrayEquals(expected, block(SECOND, 5));
      assertFalse(waits.client.hasAnswer());
      setEvent();
      awaitAllOk(waits, gets);
      assertEquals(0, harness.agent.copiesInFlight());
      assertTrue(harness.agent.isIdle());
    }
  }

  /** What ends in line stays there; its number is that of the next operation, on another GPU. */
  @Test
  void onboard_numberOfOneThatEndedInLine_isCopiedWhereItBelongs()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine waits = engine(harness, FIRST);
      Engine elsewhere = engine(harness, OTHER);
      put(waits, 7, 2);
      byte[] expected = block(FIRST, 2);
      int gets = DeviceLine.TRANSFERS / TRANSFERS_OF_LONG_GET;
      sendLongGets(harness, waits, 1, gets);
      for (int round = 0; round < 20; round++) {
        Engine leaves = engine(harness, SECOND);
        sendGet(leaves, 1, 7, 5);
        work(harness, 3);
        assertTrue(harness.agent.offerClose(leaves.client.session));
        work(harness, 3);
        assertEquals(Status.OK, get(elsewhere, 7, round % BLOCKS));
        assertArrayEquals(expected, block(OTHER, round % BLOCKS));
      }
      assertEquals(DeviceLine.TRANSFERS / 2, harness.agent.copiesInFlight());
      setEvent();
      awaitAllOk(waits, gets);
      assertTrue(harness.agent.isIdle());
    }
  }

  @Test
  void onboard_layersCountedWhileARevocationComes_noLayerIsSaidToBeThereTooEarly()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      put(owner, 7, 2);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      getter.client.sendBlocks(Verb.ONBOARD, getter.region, 0, 1, 3, 7, 5, 1);
      work(harness, 5);
      assertEquals(Status.OK, revoke(owner, 7));
      work(harness, 5);
      assertEquals(
          0,
          Words.getInt(getter.client.memory(), SessionRegionDescriptor.PROGRESS_OFFSET + 4L * 2));
      setEvent();
      assertEquals(Status.OK, getter.client.await().first());
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
    }
  }

  @Test
  void revoke_theSlotIsReused_isNotToBeHadAnyMore() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.OK, revoke(owner, 7));
      overwrite(FIRST, 2);
      assertEquals(Status.MISS, get(getter, 7, 5));
      assertEquals(Status.OK, advertise(owner, 8, 2));
      assertEquals(Status.MISS, get(getter, 7, 5));
      assertEquals(Status.OK, get(getter, 8, 5));
      assertArrayEquals(block(FIRST, 2), block(OTHER, 5));
    }
  }

  @Test
  void close_ownerInMidCopy_itsMemoryStaysUntilTheCopyIsOver()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.OK, advertise(owner, 8, 3));
      assertEquals(2, sibling.mappings());
      sibling.hold();
      sendGet(getter, 0, 7, 5);
      workUntil(harness, () -> sibling.waiting() > 0);
      owner.client.sendRevoke(owner.region, 7);
      assertTrue(harness.agent.offerClose(owner.client.session));
      work(harness, 5);
      assertEquals(1, gpu.mappings(), "closed under a copy");
      assertEquals(2, sibling.mappings(), "closed under a copy");
      assertNull(getter.client.lookup(8).holder());
      assertEquals(Status.MISS, get(getter, 8, 6));
      sibling.letGo();
      // Nobody promises what was read since its owner has gone, and no tier has it.
      assertEquals(Status.MISS, getter.client.await().first());
      workUntil(harness, () -> gpu.mappings() == 0 && sibling.mappings() == 1);
      assertTrue(harness.agent.isIdle());
    }
  }

  @Test
  void close_getterInMidCopy_ownerWaitsForTheCopy() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sibling.hold();
      sendGet(getter, 0, 7, 5);
      workUntil(harness, () -> sibling.waiting() > 0);
      assertTrue(harness.agent.offerClose(getter.client.session));
      owner.client.sendRevoke(owner.region, 7);
      work(harness, 5);
      assertFalse(owner.client.hasAnswer());
      sibling.letGo();
      assertEquals(Status.OK, owner.client.await().first());
      workUntil(harness, () -> harness.agent.isIdle() && sibling.mappings() == 1);
    }
  }

  @Test
  void unregister_advertisedAndUnderCopy_isAnsweredWhenItIsOver()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      sibling.hold();
      sendGet(getter, 0, 7, 5);
      workUntil(harness, () -> sibling.waiting() > 0);
      owner.client.send(Verb.UNREGISTER_REGION, 0, owner.region, 0);
      work(harness, 5);
      assertFalse(owner.client.hasAnswer());
      assertNull(getter.client.lookup(7).holder());
      sibling.letGo();
      assertEquals(Status.OK, owner.client.await().status());
      assertEquals(Status.OK, getter.client.await().first());
    }
  }

  @Test
  void lookup_severalRanks_namesTheOneWithTheLongestPrefix() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine first = engine(harness, FIRST);
      Engine second = engine(harness, SECOND);
      Engine third = engine(harness, OTHER);
      assertNull(third.client.lookup(1, 2, 3).holder());
      assertEquals(
          Status.OK, first.client.advertise(first.region, 10, new long[] {1, 2, 3}, 0, 1, 2));
      assertEquals(
          Status.OK,
          second.client.advertise(second.region, 11, new long[] {1, 2, 3, 4, 6}, 0, 1, 2, 3, 4));
      // The most of them, but not the first.
      assertEquals(
          Status.OK,
          third.client.advertise(third.region, 12, new long[] {2, 3, 4, 5, 6}, 0, 1, 2, 3, 4));
      IndexHarness.Answer answer = third.client.lookup(1, 2, 3, 4, 5, 6);
      assertEquals(new IndexHarness.Holder(4, second.region, 0, 11), answer.holder());
      assertEquals(Status.MISS, answer.first());
      assertEquals(
          new IndexHarness.Holder(5, third.region, 1, 12),
          first.client.lookup(2, 3, 4, 5, 6, 7).holder());
      assertNull(first.client.lookup(7, 1, 2).holder());
      // What is behind a hole does not count.
      assertEquals(Status.OK, revoke(second, 2));
      assertEquals(
          new IndexHarness.Holder(3, first.region, 0, 10),
          first.client.lookup(1, 2, 3, 4).holder());
      assertEquals(Status.OK, revoke(first, 1));
      assertEquals(
          new IndexHarness.Holder(1, second.region, 0, 11),
          first.client.lookup(1, 2, 3, 4).holder());
    }
  }

  @Test
  void delete_advertised_isNotToBeHadAnyMoreAndItsOwnerStillWaits()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      assertEquals(Status.OK, advertise(owner, 8, 3));
      sibling.hold();
      sendGet(getter, 0, 7, 5);
      workUntil(harness, () -> sibling.waiting() > 0);
      assertEquals(Status.OK, getter.client.ask(Verb.DELETE, 7));
      assertEquals(Status.MISS, getter.client.ask(Verb.DELETE, 7));
      assertNull(getter.client.lookup(7).holder());
      getter.client.send(Verb.CLEAR, 0, 0, 0);
      assertEquals(Status.OK, getter.client.await().status());
      assertEquals(Status.MISS, get(getter, 8, 6));
      owner.client.sendRevoke(owner.region, 7, 8);
      work(harness, 5);
      assertFalse(owner.client.hasAnswer());
      sibling.letGo();
      assertEquals(Status.OK, owner.client.await().first());
      assertEquals(Status.OK, getter.client.await().first());
      assertEquals(Status.OK, advertise(owner, 7, 2));
    }
  }

  @Test
  void clear_refused_hidesNothing() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      assertEquals(Status.OK, advertise(owner, 7, 2));
      IndexHarness.Holder holder = new IndexHarness.Holder(1, owner.region, 0, 0);
      // Gets that wait for an event, until the session may have no more operations.
      int gets = 0;
      while (!getter.client.hasAnswer()) {
        assertTrue(++gets < 1024);
        sendGet(getter, 1, 7, 5);
        work(harness, 1);
      }
      assertEquals(Status.BUSY, getter.client.await().status());
      getter.client.send(Verb.CLEAR, 0, 0, 0);
      assertEquals(Status.BUSY, getter.client.await().status());
      assertEquals(holder, owner.client.lookup(7).holder());
      setEvent();
      for (int i = 1; i < gets; i++) {
        assertEquals(Status.OK, getter.client.await().first());
      }
      getter.client.send(Verb.CLEAR, 0, 0, 0);
      assertEquals(Status.OK, getter.client.await().status());
      assertNull(owner.client.lookup(7).holder());
    }
  }

  @Test
  void advertise_firstOneIsCancelled_secondWaitsUntilOtherGpusSeeTheRegion()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine getter = engine(harness, OTHER);
      CountDownLatch mapped = sibling.holdMappings();
      try {
        owner.client.sendAdvertise(owner.region, 0, new long[] {7}, 2);
        work(harness, 5);
        owner.client.send(Verb.CANCEL, 0, 0, 0);
        assertEquals(Verb.ADVERTISE, owner.client.await().verb());
        assertEquals(Verb.CANCEL, owner.client.await().verb());
        owner.client.sendAdvertise(owner.region, 0, new long[] {8}, 3);
        work(harness, 5);
        assertFalse(owner.client.hasAnswer(), "no other GPU sees it");
      } finally {
        mapped.countDown();
      }
      assertEquals(Status.OK, owner.client.await().first());
      assertEquals(Status.OK, get(getter, 8, 5));
      assertArrayEquals(block(FIRST, 3), block(OTHER, 5));
    }
  }

  @Test
  void advertise_moreThanThereIsRoomFor_isBusy() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      long[] keys = LongStream.range(0, 64).toArray();
      assertEquals(Status.OK, owner.client.advertise(owner.region, 0, keys, new int[64]));
      assertEquals(Status.BUSY, advertise(owner, 64, 0));
      assertEquals(Status.OK, revoke(owner, 63));
      assertEquals(Status.OK, advertise(owner, 64, 0));
      assertEquals(Status.BUSY, advertise(owner, 65, 0));
      owner.client.send(Verb.UNREGISTER_REGION, 0, owner.region, 0);
      assertEquals(Status.OK, owner.client.await().status());
      Engine again = new Engine(owner.client, owner.client.registerRegion(region(FIRST)));
      assertEquals(Status.OK, again.client.advertise(again.region, 0, keys, new int[64]));
    }
  }

  @Test
  void advertise_keyOfMoreRegionsThanMayBe_isBusy() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      for (int i = 1; i < Advertisements.OWNERS_MAX; i++) {
        assertEquals(Status.OK, advertise(owner, 7, 2));
        owner = new Engine(owner.client, owner.client.registerRegion(region(FIRST)));
      }
      assertEquals(Status.OK, advertise(owner, 7, 2));
      owner = new Engine(owner.client, owner.client.registerRegion(region(FIRST)));
      assertEquals(Status.BUSY, advertise(owner, 7, 2));
      assertEquals(Status.OK, advertise(owner, 8, 2));
    }
  }

  @Test
  void advertise_whatCannotBe_isRefused() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness()) {
      Engine owner = engine(harness, FIRST);
      Engine other = engine(harness, SECOND);
      owner.client.sendAdvertise(other.region, 0, new long[] {7}, 2);
      assertEquals(Status.INVALID_ARGUMENT, owner.client.await().status(), "another's region");
      owner.client.sendAdvertise(owner.region, 0, new long[] {6, 7}, 2, BLOCKS);
      assertEquals(Status.INVALID_ARGUMENT, owner.client.await().status(), "no such block");
      owner.client.sendAdvertise(owner.region, 0, new long[] {6, 7}, 2, -1);
      assertEquals(Status.INVALID_ARGUMENT, owner.client.await().status(), "no such block");
      assertNull(owner.client.lookup(6).holder(), "the first was taken all the same");
      owner.client.sendRevoke(other.region, 7);
      assertEquals(Status.INVALID_ARGUMENT, owner.client.await().status());
    }
  }

  @Test
  void lookupAndOnboard_anotherTenantsBlocks_areNotSeen() throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(2, 16)
                .checksums(new IndexHarness.NoPipeline(), 1 << 20)
                .gpu(gpu)
                .tenants(
                    new TenantConfig("red", List.of(), List.of(), 1, 0, 1),
                    new TenantConfig("blue", List.of(), List.of(), 1, 0, 1)))) {
      IndexHarness.Client red = harness.open(1 << 20, new Grant("r", Role.WRITE, 1));
      assertEquals(0, red.registerAs("model", IndexHarness.SLOT_BYTES).value());
      int region = red.registerRegion(region(FIRST));
      assertEquals(Status.OK, red.advertise(region, 0, new long[] {7}, 2));
      assertEquals(new IndexHarness.Holder(1, region, 0, 0), red.lookup(7).holder());
      IndexHarness.Client blue = harness.open(1 << 20, new Grant("b", Role.WRITE, 2));
      assertEquals(1, blue.registerAs("model", IndexHarness.SLOT_BYTES).value());
      blue.sendKey(Verb.LOOKUP, 1, 7);
      assertNull(blue.work().holder());
      assertEquals(Status.NAMESPACE_UNKNOWN, blue.lookup(7).status());
      blue.sendRevoke(region, 7);
      assertEquals(Status.NAMESPACE_UNKNOWN, blue.await().status());
    }
  }
}

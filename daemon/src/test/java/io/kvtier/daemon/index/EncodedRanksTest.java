package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.node.IndexSessions;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Blocks of which the GPUs of several ranks encode their parts, and ranks of any number decode. */
final class EncodedRanksTest {
  private static final int BLOCKS = 4;
  private static final int LAYERS = 4;
  private static final int HEADS = 4;
  private static final int PLANES = 2;
  private static final int HEAD_BYTES = 1024;
  private static final int BLOCK_BYTES = LAYERS * PLANES * HEADS * HEAD_BYTES;
  private static final BlockEncoding ENCODING =
      BlockEncoding.of("exact bf16 " + HEAD_BYTES, BLOCK_BYTES);
  private static final String NAMESPACE =
      "name=test\nform=LCHND:4x4:2x4x256\n" + BlockEncoding.PROPERTY + "=exact bf16 " + HEAD_BYTES;

  private Path folder = Path.of("");
  private final Arena arena = Arena.ofShared();
  private final Random random = new Random(1);
  private int files;

  @BeforeEach
  void makeFolder() throws IOException {
    // Handles are short.
    folder = Files.createTempDirectory(Path.of("/dev/shm"), "kve");
    Files.write(folder.resolve("event"), new byte[4]);
  }

  @AfterEach
  void removeFolder() throws IOException {
    arena.close();
    for (int i = 0; i < files; i++) {
      Files.delete(folder.resolve("" + i));
    }
    Files.delete(folder.resolve("event"));
    Files.delete(folder);
  }

  /** Some layers and heads of the blocks, on the GPU of a client of its own. */
  private final class Rank {
    final IndexHarness.Client client;
    final int region;
    private final MemorySegment memory;
    private final int fromLayer;
    private final int layers;
    private final int fromHead;
    private final int heads;

    Rank(IndexHarness harness, int fromLayer, int layers, int fromHead, int heads)
        throws IOException, ProtocolViolation {
      this.fromLayer = fromLayer;
      this.layers = layers;
      this.fromHead = fromHead;
      this.heads = heads;
      Path file = Files.createFile(folder.resolve("" + files++));
      long bytes = (long) layers * BLOCKS * layerBytes();
      try (FileChannel channel =
          FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
        memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
      }
      client = harness.open();
      assertEquals(Status.OK, client.say(Verb.REGISTER, BLOCK_BYTES, NAMESPACE));
      region = client.registerRegion(text(file));
    }

    private int layerBytes() {
      return PLANES * heads * HEAD_BYTES;
    }

    /** A tensor for each layer: {@code [block, k|v, head, token, element]}. */
    private String text(Path file) {
      int head = HEAD_BYTES / 2;
      List<String> lines =
          new ArrayList<>(
              List.of(
                  "device=" + FileGpu.UUID,
                  "order=LCHND",
                  "layers=" + layers,
                  "blocks=" + BLOCKS,
                  "block_tokens=4",
                  "block_layers=" + LAYERS,
                  "first_layer=" + fromLayer,
                  "part=kv:BCHND:%d,%d,%d,4,128:%d,%d,%d,128,1:2:%d:%d"
                      .formatted(
                          BLOCKS,
                          PLANES,
                          heads,
                          PLANES * heads * head,
                          heads * head,
                          head,
                          HEADS,
                          fromHead),
                  "event=" + FileGpu.handle(folder.resolve("event")),
                  "allocation=" + FileGpu.handle(file)));
      for (int layer = 0; layer < layers; layer++) {
        lines.add("tensor=0+" + (long) layer * BLOCKS * layerBytes());
      }
      return String.join("\n", lines);
    }

    /** Copies its part of a block between the region and the bytes of the whole block. */
    private void copy(int target, byte[] block, boolean isToRegion) {
      MemorySegment whole = MemorySegment.ofArray(block);
      for (int layer = 0; layer < layers; layer++) {
        for (int plane = 0; plane < PLANES; plane++) {
          long inBlock =
              (((long) fromLayer + layer) * PLANES + plane) * HEADS * HEAD_BYTES
                  + (long) fromHead * HEAD_BYTES;
          long inRegion =
              ((long) layer * BLOCKS + target) * layerBytes() + (long) plane * heads * HEAD_BYTES;
          long bytes = (long) heads * HEAD_BYTES;
          if (isToRegion) {
            MemorySegment.copy(whole, inBlock, memory, inRegion, bytes);
          } else {
            MemorySegment.copy(memory, inRegion, whole, inBlock, bytes);
          }
        }
      }
    }

    void write(int target, byte[] block) {
      copy(target, block, true);
    }

    /** Puts a block's part into a whole block that holds what other ranks have read. */
    void read(int target, byte[] block) {
      copy(target, block, false);
    }

    void offload(long key, int target) throws ProtocolViolation {
      client.sendLayers(Verb.OFFLOAD, region, 0, 0, key, target);
    }

    /** Puts a block's part when the region's event is over. */
    void offloadAfterEvent(long key, int target) throws ProtocolViolation {
      client.sendBlock(Verb.OFFLOAD, region, 0, 1, key, target);
    }

    Status put(long key, int target) throws ProtocolViolation {
      offload(key, target);
      return client.await().first();
    }

    Status put(long key, int target, int firstLayer, int endLayer) throws ProtocolViolation {
      client.sendLayers(Verb.OFFLOAD, region, firstLayer, endLayer, key, target);
      return client.await().first();
    }

    Status get(long key, int target, int firstLayer, int endLayer) throws ProtocolViolation {
      client.sendLayers(Verb.ONBOARD, region, firstLayer, endLayer, key, target);
      return client.await().first();
    }
  }

  /** The ranks of an engine: some stages of layers, and in each of them some parts of the heads. */
  private List<Rank> engine(IndexHarness harness, int stages, int ranks)
      throws IOException, ProtocolViolation {
    List<Rank> made = new ArrayList<>();
    int layers = LAYERS / stages;
    int heads = HEADS / ranks;
    for (int stage = 0; stage < stages; stage++) {
      for (int rank = 0; rank < ranks; rank++) {
        made.add(new Rank(harness, stage * layers, layers, rank * heads, heads));
      }
    }
    return made;
  }

  private IndexHarness harness(int slabs, FileGpu gpu) throws IOException {
    return harness(slabs, gpu, new IndexHarness.InlinePipeline(Checksums::run));
  }

  /** A daemon whose slabs have four raw blocks each. */
  private static IndexHarness harness(int slabs, FileGpu gpu, IndexHarness.InlinePipeline checksums)
      throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(slabs, 32).sessions(32).checksums(checksums, 0).gpu(gpu));
  }

  private FileGpu gpu() {
    return new FileGpu(folder, 0);
  }

  /** A block as a model makes it. */
  private byte[] values() {
    ByteBuffer block = ByteBuffer.allocate(BLOCK_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    while (block.hasRemaining()) {
      block.putShort((short) (Float.floatToIntBits((float) random.nextGaussian()) >>> 16));
    }
    return block.array();
  }

  /** Makes a granule of a block one that does not fit. */
  private byte[] spoil(byte[] block, int layer, int plane, int head) {
    byte[] noise = new byte[HEAD_BYTES];
    random.nextBytes(noise);
    int granule = (layer * PLANES + plane) * HEADS + head;
    System.arraycopy(noise, 0, block, granule * HEAD_BYTES, HEAD_BYTES);
    return block;
  }

  private static boolean fits(byte[] block) {
    byte[] encoded = new byte[(int) ENCODING.encodedBytes()];
    return new GranuleCodec(ENCODING)
        .encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded));
  }

  private static byte[] encoded(byte[] block) {
    byte[] encoded = new byte[(int) ENCODING.encodedBytes()];
    assertTrue(
        new GranuleCodec(ENCODING)
            .encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded)));
    return encoded;
  }

  private static byte[] granuleOf(byte[] bytes, int granule, int granuleBytes) {
    return Arrays.copyOfRange(bytes, granule * granuleBytes, (granule + 1) * granuleBytes);
  }

  /** Where bytes are in the slabs. */
  private static long find(IndexHarness harness, byte[] bytes) {
    MemorySegment wanted = MemorySegment.ofArray(bytes);
    MemorySegment slabs = harness.slabs();
    for (long at = 0; at <= slabs.byteSize() - bytes.length; at += 16) {
      if (slabs.asSlice(at, bytes.length).mismatch(wanted) == -1) {
        return at;
      }
    }
    return -1;
  }

  private static byte[] read(List<Rank> engine, long key, int target) throws ProtocolViolation {
    byte[] block = new byte[BLOCK_BYTES];
    for (Rank rank : engine) {
      assertEquals(Status.OK, rank.get(key, target, 0, 0));
      rank.read(target, block);
    }
    return block;
  }

  private static void workUntilIdle(IndexHarness harness) {
    long end = System.nanoTime() + 60_000_000_000L;
    do {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    } while (!harness.agent.isIdle() && System.nanoTime() < end);
    assertTrue(harness.agent.isIdle(), harness.agent::toString);
  }

  private static long slotsInUse(IndexHarness harness, Rank rank) throws ProtocolViolation {
    rank.client.send(Verb.STATS, 0, 0, 0);
    assertEquals(Status.OK, rank.client.await().status());
    return harness.counters.get(Counter.GAUGE_HOST_SLOTS_TOTAL)
        - harness.counters.get(Counter.GAUGE_HOST_SLOTS_FREE);
  }

  private static long count(IndexHarness harness, Counter counter) {
    return harness.counters.get(counter);
  }

  /** One rank, and ranks that cut layers, heads and both. */
  private List<List<Rank>> engines(IndexHarness harness) throws IOException, ProtocolViolation {
    List<List<Rank>> engines = new ArrayList<>();
    for (int stages = 1; stages <= 2; stages++) {
      for (int ranks : new int[] {1, 2, 4}) {
        engines.add(engine(harness, stages, ranks));
      }
    }
    return engines;
  }

  private static void clear(Rank rank) throws ProtocolViolation {
    rank.client.send(Verb.CLEAR, 0, 0, 0);
    assertEquals(Verb.CLEAR, rank.client.await().verb());
  }

  @Test
  void blockOfAnyRanks_isEncodedAsAWholeOne_andIsReadByAnyRanks()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<List<Rank>> engines = engines(harness);
      int puts = 0;
      for (List<Rank> writers : engines) {
        byte[] block = values();
        for (Rank rank : writers) {
          rank.write(2, block);
          assertNotEquals(Status.OK, rank.client.ask(Verb.LOOKUP, 7), "not all have come");
          assertEquals(Status.OK, rank.put(7, 2));
        }
        workUntilIdle(harness);
        assertTrue(find(harness, encoded(block)) >= 0, "it has what one encoder makes");
        assertEquals(++puts, count(harness, Counter.PUT_ENCODED));
        assertEquals(0, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        for (List<Rank> readers : engines) {
          assertArrayEquals(block, read(readers, 7, 1));
        }
        clear(writers.getFirst());
      }
    }
  }

  @Test
  void partThatDoesNotFit_makesTheBlockRaw_whicheverPartItIs()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<List<Rank>> engines = engines(harness);
      int puts = 0;
      for (List<Rank> writers : engines) {
        for (int flawed = 0; flawed < HEADS; flawed++) {
          byte[] block = spoil(values(), random.nextInt(LAYERS), flawed % PLANES, flawed);
          for (Rank rank : writers) {
            rank.write(2, block);
            assertEquals(Status.OK, rank.put(7, 2));
          }
          workUntilIdle(harness);
          assertTrue(find(harness, block) >= 0, "its slot has the raw block");
          assertEquals(0, count(harness, Counter.PUT_ENCODED));
          assertEquals(++puts, count(harness, Counter.PUT_RAW));
          assertEquals(1, slotsInUse(harness, writers.getFirst()), "the encoded slot is free");
          for (List<Rank> readers : engines) {
            assertArrayEquals(block, read(readers, 7, 1));
          }
          clear(writers.getFirst());
        }
      }
    }
  }

  /** Parts are under way when one of them is found not to fit, or two, or all. */
  @Test
  void partsOnTheirWay_whenOthersDoNotFit_areInTheRawBlock() throws IOException, ProtocolViolation {
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(3, gpu)) {
      List<Rank> writers = engine(harness, 1, HEADS);
      List<Rank> readers = engine(harness, 1, 1);
      for (int flawed = 1; flawed < 1 << HEADS; flawed++) {
        byte[] block = values();
        for (int rank = 0; rank < HEADS; rank++) {
          if ((flawed >>> rank & 1) != 0) {
            spoil(block, random.nextInt(LAYERS), random.nextInt(PLANES), rank);
          }
        }
        gpu.hold();
        for (Rank rank : writers) {
          rank.write(2, block);
          rank.offload(7, 2);
        }
        for (int i = 0; i < 20; i++) {
          int ignored = harness.agent.doWork();
        }
        gpu.letGo();
        for (Rank rank : writers) {
          assertEquals(Status.OK, rank.client.await().first());
        }
        workUntilIdle(harness);
        assertEquals(flawed, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        assertArrayEquals(block, read(readers, 7, 1), "flawed " + flawed);
        clear(writers.getFirst());
      }
    }
  }

  @Test
  void layersThatAreSavedOneByOne_areEncoded_andRawIfOneDoesNotFit()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      List<Rank> readers = engine(harness, 2, 4);
      for (int flawed = -1; flawed < LAYERS; flawed++) {
        byte[] block = values();
        if (flawed >= 0) {
          spoil(block, flawed, 0, flawed);
        }
        writers.forEach(rank -> rank.write(2, block));
        for (int layer = 0; layer < LAYERS; layer++) {
          for (Rank rank : writers) {
            assertEquals(Status.OK, rank.put(7, 2, layer, layer + 1));
          }
        }
        workUntilIdle(harness);
        assertEquals(1, count(harness, Counter.PUT_ENCODED));
        assertEquals(flawed + 1, count(harness, Counter.PUT_RAW));
        assertEquals(1, slotsInUse(harness, writers.getFirst()));
        assertArrayEquals(block, read(readers, 7, 1));
        // Two layers of the last rank, one by one.
        byte[] got = new byte[BLOCK_BYTES];
        Rank last = readers.getLast();
        assertEquals(Status.OK, last.get(7, 3, 0, 1));
        assertEquals(Status.OK, last.get(7, 3, 1, 2));
        last.read(3, got);
        byte[] expected = new byte[BLOCK_BYTES];
        last.write(0, block);
        last.read(0, expected);
        assertArrayEquals(expected, got);
        clear(last);
      }
    }
  }

  @Test
  void partsOfOneRequest_areRawWhereTheirBlocksAreRaw_andEncodedWhereTheyAreNot()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      List<Rank> writers = engine(harness, 1, 2);
      byte[][] blocks = {values(), spoil(values(), 1, 1, 0), values(), spoil(values(), 1, 1, 3)};
      for (Rank rank : writers) {
        for (int i = 0; i < blocks.length; i++) {
          rank.write(i, blocks[i]);
        }
        rank.client.sendBlocks(
            Verb.OFFLOAD, rank.region, new long[] {1, 2, 3, 4}, new int[] {0, 1, 2, 3});
        IndexHarness.Answer answer = rank.client.await();
        assertEquals(List.of(Status.OK, Status.OK), List.of(answer.first(), answer.last()));
        workUntilIdle(harness);
      }
      assertEquals(2, count(harness, Counter.PUT_ENCODED));
      assertEquals(2, count(harness, Counter.PUT_RAW));
      List<Rank> readers = engine(harness, 1, 1);
      for (int i = 0; i < blocks.length; i++) {
        assertArrayEquals(blocks[i], read(readers, i + 1, 0), "block " + i);
      }
    }
  }

  /** The raw slot does not have the parts that came encoded. */
  @Test
  void nodeThatExpectsABlock_isToldOfIt_whenItsEncodedPartsAreDecoded()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(3, gpu())) {
      IndexSessions sessions =
          new IndexSessions(harness.agent(), () -> {}, 1, _ -> harness.slabs());
      Session node = sessions.open("node", new Grant("node", Role.READ, 0), () -> {});
      List<Rank> writers = engine(harness, 4, 1);
      byte[] block = spoil(values(), 1, 0, 0);
      List<NodeCall.Followed> told = new ArrayList<>();
      MemorySegment keys = arena.allocate(Records.keyStride(8), 8);
      keys.set(ValueLayout.JAVA_LONG, 0, 7);
      Namespaces.Fingerprint name =
          Namespaces.fingerprintOf(
              BLOCK_BYTES + "\n" + NAMESPACE.lines().sorted().collect(Collectors.joining("\n")));
      assertTrue(
          sessions.call(
              node,
              new NodeCall.Follow(
                  new NodeCall.Blocks(name.high(), name.low(), 0, 8, 1, keys),
                  BLOCK_BYTES,
                  1_000_000_000L,
                  told::add)));
      for (Rank rank : writers) {
        assertEquals(List.of(), told);
        rank.write(2, block);
        assertEquals(Status.OK, rank.put(7, 2));
      }
      workUntilIdle(harness);
      assertEquals(1, told.size());
      assertInstanceOf(NodeCall.Followed.Whole.class, told.getFirst());
    }
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
            // It has begun the block.
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
      for (int i = 0; i < 1000; i++) {
        int ignored = harness.agent.doWork();
        harness.agent.checkInvariants();
      }
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

  private void endEvent() throws IOException {
    Files.write(folder.resolve("event"), new byte[] {1, 0, 0, 0}, StandardOpenOption.WRITE);
  }

  private static void work(IndexHarness harness, int rounds) {
    for (int i = 0; i < rounds; i++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  /** A pinned block in the only slab, which has slots of its size from then on. */
  private void holdAllSlots(IndexHarness harness, Rank rank) throws IOException, ProtocolViolation {
    Rank whole = new Rank(harness, 0, LAYERS, 0, HEADS);
    whole.write(0, values());
    assertEquals(Status.OK, whole.put(1, 0));
    rank.client.sendKeys(Verb.PIN, 1, 1);
    assertEquals(Status.OK, rank.client.await().first());
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
      int ignored = harness.agent.doWork();
      third.offload(21, 2);
      ignored = harness.agent.doWork();
      writers.getLast().offload(20, 2);
      ignored = harness.agent.doWork();
      whole.offload(22, 2);
      ignored = harness.agent.doWork();
      pins.client.sendKeys(Verb.UNPIN, 1, 1);
      assertEquals(Status.OK, pins.client.await().first());
      for (int i = 0; i < 2000; i++) {
        ignored = harness.agent.doWork();
      }
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
      byte[] part = granuleOf(encoded(block), 1, ENCODING.encodedGranuleBytes());
      spoil(block, 2, 1, 3);
      writers.forEach(rank -> rank.write(2, block));
      assertEquals(Status.OK, writers.getFirst().put(7, 2));
      long at = find(harness, part) + 100;
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
      for (int i = 0; i < 1000; i++) {
        int ignored = harness.agent.doWork();
      }
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
  void rawBlock_thatIsDeletedBeforeItsPartsAreDecoded_leavesNothing()
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
      Status found = writers.getFirst().client.ask(Verb.LOOKUP, 7);
      assertEquals(found == Status.OK ? 1 : 0, slotsInUse(harness, writers.getFirst()));
    }
  }

  /** Engines of any ranks put and get blocks of both forms: nobody gets another block's bytes. */
  @Test
  void anyOrder_ofEnginesAndBlocks_neverGivesWrongBytes() throws IOException, ProtocolViolation {
    int keys = 10;
    FileGpu gpu = gpu();
    try (IndexHarness harness = harness(3, gpu)) {
      List<List<Rank>> engines = engines(harness);
      for (long seed = 0; seed < 8; seed++) {
        random.setSeed(seed);
        byte[][] blocks = new byte[keys][];
        for (int key = 0; key < keys; key++) {
          blocks[key] = values();
          for (int spoiled = random.nextInt(4); spoiled > 1; spoiled--) {
            spoil(
                blocks[key], random.nextInt(LAYERS), random.nextInt(PLANES), random.nextInt(HEADS));
          }
        }
        int hits = 0;
        for (int step = 0; step < 100; step++) {
          List<Rank> engine = engines.get(random.nextInt(engines.size()));
          int key = random.nextInt(keys);
          int target = random.nextInt(BLOCKS);
          if (random.nextInt(10) == 0) {
            engine.getFirst().client.sendKeys(Verb.DELETE, key, 1);
            assertEquals(Verb.DELETE, engine.getFirst().client.await().verb());
          } else if (random.nextBoolean()) {
            putTogether(harness, gpu, engine, key, target, blocks[key]);
          } else {
            hits += getApart(engine, key, target, blocks[key], "seed " + seed + " step " + step);
          }
          harness.agent.checkInvariants();
        }
        assertTrue(hits > 10, "seed " + seed + ": " + hits + " hits");
        harness.nowNs += IndexHarness.LEASE_NS + 1;
        workUntilIdle(harness);
        Rank any = engines.getFirst().getFirst();
        clear(any);
        assertEquals(0, slotsInUse(harness, any));
      }
      assertTrue(count(harness, Counter.PUT_ENCODED) > 40);
      assertTrue(count(harness, Counter.PUT_RAW) > 40);
    }
  }

  /** Ranks put a block in any order; sometimes all at once, and sometimes one does not. */
  private void putTogether(
      IndexHarness harness, FileGpu gpu, List<Rank> engine, long key, int target, byte[] block)
      throws ProtocolViolation {
    List<Rank> ranks = new ArrayList<>(engine);
    Collections.shuffle(ranks, random);
    boolean isAtOnce = random.nextBoolean();
    int count = random.nextInt(5) == 0 ? ranks.size() - 1 : ranks.size();
    if (isAtOnce) {
      gpu.hold();
    }
    for (Rank rank : ranks.subList(0, count)) {
      rank.write(target, block);
      rank.offload(key, target);
      if (!isAtOnce) {
        assertEquals(Verb.OFFLOAD, rank.client.await().verb());
      }
      int ignored = harness.agent.doWork();
    }
    gpu.letGo();
    for (Rank rank : isAtOnce ? ranks.subList(0, count) : List.<Rank>of()) {
      assertEquals(Verb.OFFLOAD, rank.client.await().verb());
    }
    if (count < ranks.size()) {
      harness.nowNs += IndexHarness.LEASE_NS + 1;
    }
  }

  /** Each rank gets its part, and compares it; returns how many got one. */
  private static int getApart(List<Rank> engine, long key, int target, byte[] block, String when)
      throws ProtocolViolation {
    int hits = 0;
    for (Rank rank : engine) {
      if (rank.get(key, target, 0, 0) == Status.OK) {
        byte[] got = new byte[BLOCK_BYTES];
        byte[] expected = new byte[BLOCK_BYTES];
        rank.read(target, got);
        rank.write(target, block);
        rank.read(target, expected);
        assertArrayEquals(expected, got, when);
        hits++;
      }
    }
    return hits;
  }

  @Test
  void spoiledBlock_ofTheseTests_doesNotFit() {
    assertTrue(fits(values()));
    assertFalse(fits(spoil(values(), 0, 0, 0)));
  }
}

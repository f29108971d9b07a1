package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Blocks that a GPU encodes on their way to their slots, and decodes on their way back. */
final class EncodedRegionsTest {
  private static final int BLOCKS = 8;

  /** Encoded blocks have a size class of their own. */
  private static final int BLOCK_BYTES = 8 * IndexHarness.SLOT_BYTES;

  private static final int LAYER_BYTES = BLOCK_BYTES / 2;
  private static final BlockEncoding ENCODING = BlockEncoding.of("exact bf16 1024", BLOCK_BYTES);

  private Path folder = Path.of("");
  private final Random random = new Random(1);

  @BeforeEach
  void makeFolder() throws IOException {
    // Handles are short.
    folder = Files.createTempDirectory(Path.of("/dev/shm"), "kve");
    Files.write(folder.resolve("kv"), new byte[BLOCKS * BLOCK_BYTES]);
    for (int i = 0; i < BLOCKS; i++) {
      write(i, values());
    }
  }

  @AfterEach
  void removeFolder() throws IOException {
    Files.delete(folder.resolve("kv"));
    Files.delete(folder);
  }

  /** A block as a model makes it. */
  private byte[] values() {
    ByteBuffer block = ByteBuffer.allocate(BLOCK_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    while (block.hasRemaining()) {
      block.putShort((short) (Float.floatToIntBits((float) random.nextGaussian()) >>> 16));
    }
    return block.array();
  }

  /** A block with a granule that does not fit. */
  private byte[] unfit() {
    byte[] block = values();
    byte[] noise = new byte[1024];
    random.nextBytes(noise);
    System.arraycopy(noise, 0, block, random.nextInt(4) * noise.length, noise.length);
    return block;
  }

  /** Two layers of a tensor each, half a block in each. */
  private String region() {
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "layers=2",
        "blocks=" + BLOCKS,
        "block_tokens=1",
        "part=kv:BD:" + BLOCKS + "," + LAYER_BYTES / 2 + ":" + LAYER_BYTES / 2 + ",1:2",
        "allocation=" + FileGpu.handle(folder.resolve("kv")),
        "tensor=0+0",
        "tensor=0+" + BLOCKS * LAYER_BYTES);
  }

  private void write(int number, byte[] block) throws IOException {
    try (FileChannel file = FileChannel.open(folder.resolve("kv"), StandardOpenOption.WRITE)) {
      for (int layer = 0; layer < 2; layer++) {
        ByteBuffer half = ByteBuffer.wrap(block, layer * LAYER_BYTES, LAYER_BYTES);
        int ignored = file.write(half, (long) (layer * BLOCKS + number) * LAYER_BYTES);
      }
    }
  }

  private byte[] read(int number) throws IOException {
    byte[] all = Files.readAllBytes(folder.resolve("kv"));
    byte[] block = new byte[BLOCK_BYTES];
    for (int layer = 0; layer < 2; layer++) {
      System.arraycopy(
          all, (layer * BLOCKS + number) * LAYER_BYTES, block, layer * LAYER_BYTES, LAYER_BYTES);
    }
    return block;
  }

  /** A daemon with slabs for four raw blocks. */
  private IndexHarness harness(int slabs, FileGpu gpu) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(slabs, 32)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .gpu(gpu));
  }

  private static IndexHarness.Client open(IndexHarness harness)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open();
    assertEquals(
        Status.OK,
        client.say(
            Verb.REGISTER,
            BLOCK_BYTES,
            "name=test\n" + BlockEncoding.PROPERTY + "=exact bf16 1024"));
    return client;
  }

  private static Status ask(
      IndexHarness.Client client, Verb verb, int region, int layers, long key, int target)
      throws ProtocolViolation {
    client.sendBlock(verb, region, layers, 0, key, target);
    return client.await().first();
  }

  private static long slotsInUse(IndexHarness harness, IndexHarness.Client client)
      throws ProtocolViolation {
    client.send(Verb.STATS, 0, 0, 0);
    assertEquals(Status.OK, client.await().status());
    return harness.counters.get(Counter.GAUGE_HOST_SLOTS_TOTAL)
        - harness.counters.get(Counter.GAUGE_HOST_SLOTS_FREE);
  }

  private static void workUntilIdle(IndexHarness harness) {
    long end = System.nanoTime() + 60_000_000_000L;
    do {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    } while (!harness.agent.isIdle() && System.nanoTime() < end);
    assertTrue(harness.agent.isIdle(), harness.agent::toString);
  }

  @Test
  void offload_blockThatFits_isStoredEncodedAndComesBackTheSame()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(2, new FileGpu(folder, 0))) {
      IndexHarness.Client client = open(harness);
      int region = client.registerRegion(region());
      assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 7, 2));
      workUntilIdle(harness);
      assertTrue(
          harness.find(EncodedRanks.encoded(ENCODING, read(2))) >= 0,
          "the slot has what other encoders make");
      assertEquals(1, harness.counters.get(Counter.PUT_ENCODED));
      assertEquals(ENCODING.encodedBytes(), harness.counters.get(Counter.PUT_ENCODED_BYTES));
      assertEquals(0, harness.counters.get(Counter.PUT_RAW));
      assertEquals(Status.OK, ask(client, Verb.ONBOARD, region, 0, 7, 5));
      assertArrayEquals(read(2), read(5));
      // The first layer alone.
      byte[] before = read(6);
      assertEquals(Status.OK, ask(client, Verb.ONBOARD, region, 1, 7, 6));
      System.arraycopy(read(2), 0, before, 0, LAYER_BYTES);
      assertArrayEquals(before, read(6));
      client.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.MISS, client.await().first(), "this client reads no encoded blocks");
    }
  }

  @Test
  void offload_blockThatDoesNotFit_isStoredRaw() throws IOException, ProtocolViolation {
    write(2, unfit());
    try (IndexHarness harness = harness(2, new FileGpu(folder, 0))) {
      IndexHarness.Client client = open(harness);
      int region = client.registerRegion(region());
      assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 7, 2));
      assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 8, 3));
      workUntilIdle(harness);
      assertTrue(harness.find(read(2)) >= 0, "the slot has the raw block");
      assertEquals(1, harness.counters.get(Counter.PUT_RAW));
      assertEquals(1, harness.counters.get(Counter.PUT_ENCODED));
      assertEquals(2, slotsInUse(harness, client), "the encoded slot was given back");
      assertEquals(Status.OK, ask(client, Verb.ONBOARD, region, 0, 7, 5));
      assertArrayEquals(read(2), read(5));
      client.sendKeys(Verb.ACQUIRE, 7, 1);
      assertEquals(Status.OK, client.await().first());
    }
  }

  @Test
  void offload_blockDoesNotFitAndThereIsNoRawSlot_isBusyAndLeavesNothing()
      throws IOException, ProtocolViolation {
    write(2, unfit());
    // All slots are in the one slab, which gets the size of the first block.
    try (IndexHarness harness = harness(1, new FileGpu(folder, 0))) {
      IndexHarness.Client client = open(harness);
      int region = client.registerRegion(region());
      assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 6, 3));
      client.sendKeys(Verb.PIN, 6, 1);
      assertEquals(Status.OK, client.await().first());
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      for (int i = 0; i < 1000 && !client.hasAnswer(); i++) {
        int ignored = harness.agent.doWork();
        harness.agent.checkInvariants();
        harness.nowNs += 100_000_000;
      }
      assertTrue(client.hasAnswer());
      assertFalse(client.take().first() == Status.OK);
      workUntilIdle(harness);
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 7));
      assertEquals(1, slotsInUse(harness, client));
      assertEquals(Status.OK, ask(client, Verb.ONBOARD, region, 0, 6, 5));
      assertArrayEquals(read(3), read(5));
    }
  }

  @Test
  void offload_sessionEndsBeforeABlockIsFoundNotToFit_leavesNothing()
      throws IOException, ProtocolViolation {
    write(2, unfit());
    FileGpu gpu = new FileGpu(folder, 0);
    try (IndexHarness harness = harness(2, gpu)) {
      IndexHarness.Client stays = open(harness);
      IndexHarness.Client client = open(harness);
      int region = client.registerRegion(region());
      gpu.hold();
      client.sendBlock(Verb.OFFLOAD, region, 0, 0, 7, 2);
      while (gpu.waiting() == 0) {
        int ignored = harness.agent.doWork();
      }
      assertTrue(harness.agent.offerClose(client.session));
      for (int i = 0; i < 5; i++) {
        int ignored = harness.agent.doWork();
      }
      gpu.letGo();
      while (gpu.mappings() > 0) {
        int ignored = harness.agent.doWork();
      }
      workUntilIdle(harness);
      assertEquals(Status.MISS, stays.ask(Verb.LOOKUP, 7));
      assertEquals(0, slotsInUse(harness, stays));
    }
  }

  @Test
  void onboard_damagedBlock_isCorruptAndDropped() throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(2, new FileGpu(folder, 0))) {
      IndexHarness.Client client = open(harness);
      int region = client.registerRegion(region());
      assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 8, 3));
      // The checksum, the count of escapes, a code, a sign.
      int[] damages = {1, 4, 100, 700};
      for (int i = 0; i < damages.length; i++) {
        assertEquals(Status.OK, ask(client, Verb.OFFLOAD, region, 0, 7, 2));
        workUntilIdle(harness);
        long at = harness.find(EncodedRanks.encoded(ENCODING, read(2))) + damages[i];
        byte other = (byte) (harness.slabs().get(ValueLayout.JAVA_BYTE, at) ^ 0x55);
        harness.slabs().set(ValueLayout.JAVA_BYTE, at, other);
        assertEquals(Status.CORRUPT, ask(client, Verb.ONBOARD, region, 0, 7, 5));
        workUntilIdle(harness);
        assertEquals(i + 1, harness.counters.get(Counter.CORRUPT));
        assertEquals(Status.MISS, ask(client, Verb.ONBOARD, region, 0, 7, 5));
        assertEquals(1, slotsInUse(harness, client));
        assertEquals(Status.OK, ask(client, Verb.ONBOARD, region, 0, 8, 5));
        assertArrayEquals(read(3), read(5));
      }
    }
  }

  @Test
  void register_regionThatCantBeEncoded_isRefusedWithTheReason()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = harness(2, new FileGpu(folder, 0))) {
      IndexHarness.Client client = open(harness);
      client.sendText(Verb.REGISTER_REGION, 0, region().replace("tensor=0+0", "tensor=0+8"));
      IndexHarness.Answer answer = client.await();
      assertEquals(Status.INVALID_ARGUMENT, answer.status());
    }
  }

  /** Blocks of both forms come and go, and some are damaged: nobody gets another block's bytes. */
  @Test
  void anyOrder_ofPutsGetsAndDamage_neverGivesWrongBytes() throws IOException, ProtocolViolation {
    for (long seed = 0; seed < 2; seed++) {
      random.setSeed(seed);
      try (IndexHarness harness = harness(3, new FileGpu(folder, 0))) {
        IndexHarness.Client client = open(harness);
        int region = client.registerRegion(region());
        Map<Long, byte[]> put = new HashMap<>();
        int hits = 0;
        for (int step = 0; step < 800; step++) {
          long key = random.nextInt(12);
          int target = random.nextInt(BLOCKS);
          switch (random.nextInt(5)) {
            case 0, 1 -> {
              byte[] block = random.nextInt(3) == 0 ? unfit() : values();
              write(target, block);
              Status status = ask(client, Verb.OFFLOAD, region, 0, key, target);
              assertTrue(
                  List.of(Status.OK, Status.EXISTS, Status.PENDING, Status.BUSY).contains(status),
                  status::toString);
              if (status == Status.OK) {
                put.put(key, block);
              }
            }
            case 2, 3 -> {
              Status status = ask(client, Verb.ONBOARD, region, 0, key, target);
              if (status == Status.OK) {
                assertArrayEquals(put.get(key), read(target), "seed " + seed + " step " + step);
                hits++;
              }
            }
            default -> {
              if (random.nextInt(4) == 0) {
                long at = random.nextLong(harness.slabs().byteSize());
                byte other = (byte) (harness.slabs().get(ValueLayout.JAVA_BYTE, at) ^ 8);
                // Raw blocks in memory are not verified again: only what is encoded is damaged.
                if (isInAnEncodedBlock(harness, put, at)) {
                  harness.slabs().set(ValueLayout.JAVA_BYTE, at, other);
                }
              } else {
                client.sendKeys(Verb.DELETE, key, 1);
                assertEquals(Verb.DELETE, client.await().verb());
              }
            }
          }
          harness.agent.checkInvariants();
        }
        assertTrue(hits > 100, "seed " + seed + ": " + hits + " hits");
        workUntilIdle(harness);
      }
    }
  }

  private static boolean isInAnEncodedBlock(IndexHarness harness, Map<Long, byte[]> put, long at) {
    GranuleCodec codec = new GranuleCodec(ENCODING);
    for (byte[] block : put.values()) {
      byte[] encoded = new byte[(int) ENCODING.encodedBytes()];
      if (codec.encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded))) {
        long slot = harness.find(encoded);
        if (slot >= 0 && at >= slot && at < slot + encoded.length) {
          return true;
        }
      }
    }
    return false;
  }
}

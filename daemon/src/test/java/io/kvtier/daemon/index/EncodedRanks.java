package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Ranks whose GPUs encode their parts of blocks: engines, daemons and blocks for tests. */
abstract class EncodedRanks {
  static final int BLOCKS = 4;
  static final int LAYERS = 4;
  static final int HEADS = 4;
  static final int PLANES = 2;
  static final int HEAD_BYTES = 1024;
  static final int BLOCK_BYTES = LAYERS * PLANES * HEADS * HEAD_BYTES;

  final BlockEncoding encoding;
  final String namespace;

  private Path folder = Path.of("");
  final Arena arena = Arena.ofShared();
  final Random random = new Random(1);
  private int files;

  EncodedRanks(EncodingKind kind) {
    String property = kind.id() + " bf16 " + HEAD_BYTES;
    encoding = BlockEncoding.of(property, BLOCK_BYTES);
    namespace = "name=test\nform=LCHND:4x4:2x4x256\n" + BlockEncoding.PROPERTY + "=" + property;
  }

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
  final class Rank {
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
      assertEquals(Status.OK, client.say(Verb.REGISTER, BLOCK_BYTES, namespace));
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
  List<Rank> engine(IndexHarness harness, int stages, int ranks)
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

  IndexHarness harness(int slabs, FileGpu gpu) throws IOException {
    return harness(slabs, gpu, new IndexHarness.InlinePipeline(Checksums::run));
  }

  /** A daemon whose slabs have four raw blocks each. */
  static IndexHarness harness(int slabs, FileGpu gpu, IndexHarness.InlinePipeline checksums)
      throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(slabs, 32).sessions(32).checksums(checksums, 0).gpu(gpu));
  }

  FileGpu gpu() {
    return new FileGpu(folder, 0);
  }

  /** A block as a model makes it. */
  byte[] computed() {
    ByteBuffer block = ByteBuffer.allocate(BLOCK_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    while (block.hasRemaining()) {
      block.putShort((short) (Float.floatToIntBits((float) random.nextGaussian()) >>> 16));
    }
    return block.array();
  }

  /** A block as a model makes it, of values that its encoding keeps. */
  byte[] values() {
    byte[] kept = new byte[BLOCK_BYTES];
    assertTrue(
        new GranuleCodec(encoding)
            .decode(MemorySegment.ofArray(encoded(computed())), MemorySegment.ofArray(kept)));
    return kept;
  }

  /** Makes a granule of a block one that does not fit. */
  byte[] spoil(byte[] block, int layer, int plane, int head) {
    byte[] noise = new byte[HEAD_BYTES];
    random.nextBytes(noise);
    // Infinite, too.
    noise[0] = (byte) 0x80;
    noise[1] = 0x7f;
    int granule = (layer * PLANES + plane) * HEADS + head;
    System.arraycopy(noise, 0, block, granule * HEAD_BYTES, HEAD_BYTES);
    return block;
  }

  boolean fits(byte[] block) {
    byte[] encoded = new byte[(int) encoding.encodedBytes()];
    return new GranuleCodec(encoding)
        .encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded));
  }

  byte[] encoded(byte[] block) {
    return encoded(encoding, block);
  }

  /** The encoded form of a block that fits. */
  static byte[] encoded(BlockEncoding encoding, byte[] block) {
    byte[] encoded = new byte[(int) encoding.encodedBytes()];
    assertTrue(
        new GranuleCodec(encoding)
            .encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded)));
    return encoded;
  }

  static byte[] granuleOf(byte[] bytes, int granule, int granuleBytes) {
    return Arrays.copyOfRange(bytes, granule * granuleBytes, (granule + 1) * granuleBytes);
  }

  static byte[] read(List<Rank> engine, long key, int target) throws ProtocolViolation {
    byte[] block = new byte[BLOCK_BYTES];
    for (Rank rank : engine) {
      assertEquals(Status.OK, rank.get(key, target, 0, 0));
      rank.read(target, block);
    }
    return block;
  }

  static void workUntilIdle(IndexHarness harness) {
    long end = System.nanoTime() + 60_000_000_000L;
    do {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    } while (!harness.agent.isIdle() && System.nanoTime() < end);
    assertTrue(harness.agent.isIdle(), harness.agent::toString);
  }

  static long slotsInUse(IndexHarness harness, Rank rank) throws ProtocolViolation {
    rank.client.send(Verb.STATS, 0, 0, 0);
    assertEquals(Status.OK, rank.client.await().status());
    return harness.counters.get(Counter.GAUGE_HOST_SLOTS_TOTAL)
        - harness.counters.get(Counter.GAUGE_HOST_SLOTS_FREE);
  }

  static long count(IndexHarness harness, Counter counter) {
    return harness.counters.get(counter);
  }

  /** One rank, and ranks that cut layers, heads and both. */
  List<List<Rank>> engines(IndexHarness harness) throws IOException, ProtocolViolation {
    List<List<Rank>> engines = new ArrayList<>();
    for (int stages = 1; stages <= 2; stages++) {
      for (int ranks : new int[] {1, 2, 4}) {
        engines.add(engine(harness, stages, ranks));
      }
    }
    return engines;
  }

  static void clear(Rank rank) throws ProtocolViolation {
    rank.client.send(Verb.CLEAR, 0, 0, 0);
    assertEquals(Verb.CLEAR, rank.client.await().verb());
  }

  void endEvent() throws IOException {
    Files.write(folder.resolve("event"), new byte[] {1, 0, 0, 0}, StandardOpenOption.WRITE);
  }

  static void work(IndexHarness harness, int rounds) {
    for (int i = 0; i < rounds; i++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  /** A pinned block in the only slab, which has slots of its size from then on. */
  void holdAllSlots(IndexHarness harness, Rank rank) throws IOException, ProtocolViolation {
    Rank whole = new Rank(harness, 0, LAYERS, 0, HEADS);
    whole.write(0, values());
    assertEquals(Status.OK, whole.put(1, 0));
    rank.client.sendKeys(Verb.PIN, 1, 1);
    assertEquals(Status.OK, rank.client.await().first());
  }
}

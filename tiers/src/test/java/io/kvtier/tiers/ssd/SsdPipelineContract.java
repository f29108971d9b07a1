package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.LastLeg;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;

/** The contract of pipelines between slabs and files, on real files. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
abstract class SsdPipelineContract {
  static final int PAGE = 4096;
  static final int DEPTH = 64;
  private static final int BLOCK_BYTES = 3 * PAGE - 100;
  private static final int SLOT_BYTES = 3 * PAGE;
  private static final int SSD_SLOT_BYTES = 4 * PAGE;
  private static final int SLOTS = 256;
  private static final int NOISE = 0;
  private static final int FEW_VALUES = 1;
  private static final int ZEROS = 2;
  private static final int CONTENTS = 3;
  private static final int REGIONS = 2;
  private static final long REGION_BYTES = (long) SLOTS / REGIONS * SSD_SLOT_BYTES;
  private static final long SLAB_BYTES = (long) SLOTS * SLOT_BYTES;
  private static final long BEYOND_ANY_FILE = Long.MAX_VALUE / 2 / PAGE * PAGE;

  @TempDir Path directory;

  private final Arena arena = Arena.ofShared();
  private final Semaphore rung = new Semaphore(0);
  private final AtomicReference<Throwable> defect = new AtomicReference<>();
  private final List<Transfer> finished = new ArrayList<>();
  private final Logger logger = (Logger) LoggerFactory.getLogger(SsdPipelineContract.class);
  private final ListAppender<ILoggingEvent> said = new ListAppender<>();
  private final TroubleLog troubles = new TroubleLog(logger, "the device");
  private MemorySegment slab = MemorySegment.NULL;

  /** Of the pipelines that are started from now on. */
  private BlockCodec codec = BlockCodecs.none();

  abstract Pipeline start(SsdEngine.Parts parts) throws IOException;

  @BeforeEach
  void makeSlab() throws IOException {
    try (Descriptor memory = SharedMemory.create("test-slab", SLAB_BYTES)) {
      slab = SharedMemory.map(memory, SLAB_BYTES, true, arena);
    }
  }

  @BeforeEach
  void listen() {
    said.start();
    logger.addAppender(said);
  }

  @AfterEach
  void nothingBroke() {
    logger.detachAppender(said);
    arena.close();
    Throwable thrown = defect.get();
    if (thrown != null) {
      throw new AssertionError("the pipeline reported a defect", thrown);
    }
  }

  FileDevice open() throws IOException {
    return open(directory, REGIONS, REGION_BYTES);
  }

  FileDevice open(Path at, int regions, long regionBytes) throws IOException {
    return new FileDevice(at, regions, regionBytes);
  }

  Pipeline start(FileDevice device) throws IOException {
    return start(device, rung::release);
  }

  private Pipeline start(FileDevice device, Runnable finishedBell) throws IOException {
    return start(
        new SsdEngine.Parts(
            "test-ssd",
            device,
            codec,
            null,
            1,
            DEPTH,
            new SsdListeners(finishedBell, troubles, defect::set)));
  }

  @Test
  void load_whatWasStored_hasItsBytes() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 7, 130);
      fill(block, 42);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      block.slot().fill((byte) 0);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
      assertEquals(block.checksum, Checksums.of(block.bytes()));
      assertTrue(block.elapsedNs > 0);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void store_blockThatIsMeasured_addsItsErrors_ifItIsSound(boolean isEncodedForTheDevice)
      throws Exception {
    codec = isEncodedForTheDevice ? BlockCodecs.create("zstd") : BlockCodecs.none();
    EncodingErrors errors =
        EncodingErrors.of(new BlockEncoding(EncodingKind.FP8, 640, BLOCK_BYTES / 656), null);
    assertNotNull(errors);
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 7, 130);
      fill(block, 42);
      block.errors = errors;
      block.checksum ^= 1;
      assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(0, errors.means().length);
      block.checksum ^= 1;
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(1, errors.means().length);
    }
  }

  @Test
  void store_withALastLeg_ringsOnceForAGroup() throws Exception {
    HeldLeg leg = new HeldLeg();
    SsdEngine.Parts parts =
        new SsdEngine.Parts(
            "test-ssd",
            open(),
            codec,
            leg,
            1,
            DEPTH,
            new SsdListeners(rung::release, troubles, defect::set));
    Pipeline pipeline = start(parts);
    try (SlotDevice _ = parts.device()) {
      for (int i = 0; i < 3; i++) {
        Transfer block = block(i, i, 0);
        fill(block, i);
        block.kind = Transfer.Kind.STORE;
        assertTrue(pipeline.offer(block));
      }
      leg.held.acquire(3);
      pipeline.close();
      assertEquals(0, rung.availablePermits(), "written, but not yet done");
      leg.finish();
      assertEquals(1, rung.availablePermits());
      assertEquals(3, pipeline.collect(finished::add));
    }
  }

  /** A last leg that waits to be told. */
  private static final class HeldLeg implements LastLeg {
    final Semaphore held = new Semaphore(0);
    private final Queue<Transfer> transfers = new ConcurrentLinkedQueue<>();
    private Consumer<Transfer> done = transfer -> {};
    private Runnable afterSome = () -> {};

    @Override
    public int capacity() {
      return DEPTH;
    }

    @Override
    public void start(Consumer<Transfer> whenDone, Runnable afterSeveral) {
      done = whenDone;
      afterSome = afterSeveral;
    }

    @Override
    public boolean offer(Transfer transfer) {
      transfers.add(transfer);
      held.release();
      return true;
    }

    void finish() {
      transfers.forEach(done);
      afterSome.run();
    }
  }

  @Test
  void load_blockLargerThanWhatIsMovedAtOnce_hasItsBytes() throws Exception {
    int bytes = 8 << 20;
    try (FileDevice device = open(directory, 1, bytes + PAGE);
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      block.slab = arena.allocate(bytes, PAGE);
      block.length = bytes;
      block.slotBytes = bytes;
      fill(block, 43);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      block.slot().fill((byte) 0);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  @Test
  void load_anotherBlocksSlot_isCorrupt() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      block.key[31] ^= 1;
      assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  @Test
  void load_flippedBit_isCorrupt() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      for (int at : new int[] {SlotHeaderDescriptor.KEY_OFFSET, PAGE, PAGE + BLOCK_BYTES - 1}) {
        Transfer block = block(0, 0, 3);
        fill(block, 1);
        assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
        flip(block.offset + at);
        assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.LOAD), "byte " + at);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd", "planes"})
  void load_intoASlabThatAnotherProcessScribblesOn_findsTheSoundCopySound(String name)
      throws Exception {
    codec = BlockCodecs.create(name);
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      List<Transfer> blocks = new ArrayList<>();
      for (int i = 0; i < DEPTH; i++) {
        Transfer block = block(i, i, i / REGIONS);
        fill(block, i);
        assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
        block.kind = Transfer.Kind.LOAD;
        blocks.add(block);
      }
      AtomicBoolean isOver = new AtomicBoolean();
      MemorySegment shared = slab;
      Thread scribbler = Thread.ofPlatform().start(() -> scribble(shared, isOver));
      try {
        for (int round = 0; round < 4; round++) {
          for (Transfer block : blocks) {
            block.status = Status.BUSY;
            assertTrue(pipeline.offer(block));
          }
          await(pipeline, DEPTH);
          for (Transfer block : blocks) {
            assertEquals(Status.OK, block.status, "block " + block.poolIndex);
          }
        }
      } finally {
        isOver.set(true);
        scribbler.join();
      }
      assertEquals(Status.OK, run(pipeline, blocks.getFirst(), Transfer.Kind.LOAD));
      assertEquals(
          blocks.getFirst().checksum, Checksums.of(blocks.getFirst().bytes()), "and its bytes");
      // A damaged copy is still found, also when it is read the second time.
      flip(blocks.get(REGIONS).offset + PAGE);
      assertEquals(Status.CORRUPT, run(pipeline, blocks.get(REGIONS), Transfer.Kind.LOAD));
    }
  }

  /** Writes where a client should not, again and again. */
  private static void scribble(MemorySegment slab, AtomicBoolean isOver) {
    Random random = new Random(1);
    while (!isOver.get()) {
      for (int i = 0; i < DEPTH; i++) {
        slab.set(ValueLayout.JAVA_BYTE, (long) i * SLOT_BYTES, (byte) random.nextInt());
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd", "planes"})
  void store_bytesThatChanged_isCorruptAndWritesNothing(String name) throws Exception {
    codec = BlockCodecs.create(name);
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      byte was = block.slab.get(ValueLayout.JAVA_BYTE, block.slabOffset);
      block.slab.set(ValueLayout.JAVA_BYTE, block.slabOffset, (byte) (was + 1));
      assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
      assertEquals(was, block.slab.get(ValueLayout.JAVA_BYTE, block.slabOffset));
    }
  }

  @Test
  void load_truncatedFile_isAnError() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 2);
      fill(block, 1);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      // In the header, behind it, in the body: an error each, and never a wait.
      for (long bytes : new long[] {0, PAGE, 2 * PAGE}) {
        try (RandomAccessFile file = regionFile()) {
          file.setLength(block.offset + bytes);
        }
        assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.LOAD), bytes + " left");
      }
    }
  }

  @Test
  void storeAndLoad_placeThatTheDeviceRefuses_isAnErrorAndTheNextGoesOn() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      block.offset = BEYOND_ANY_FILE;
      assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.LOAD));
      block.offset = 0;
      block.region = REGIONS - 1;
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  @Test
  void storeAndLoad_failAgainAndAgain_areToldOfOnceWithTheCause() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      flip(PAGE);
      for (int i = 0; i < 10; i++) {
        assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.LOAD));
      }
      fill(block, 1);
      block.offset = BEYOND_ANY_FILE;
      for (int i = 0; i < 10; i++) {
        assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.STORE));
        assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.LOAD));
      }
    }
    List<String> lines = said.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
    assertEquals(3, lines.size(), lines::toString);
    assertLine(lines.get(0), "the device: a block is damaged: ", "at 0");
    assertLine(
        lines.get(1),
        "the device: a block can't be written: ",
        "slots-0000.dat",
        "EFBIG",
        "LimitFSIZE");
    assertLine(lines.get(2), "the device: a block can't be read: ", "slots-0000.dat", "ends");
  }

  private static void assertLine(String line, String begin, String... words) {
    assertTrue(line.startsWith(begin), line);
    for (String word : words) {
      assertTrue(line.contains(word), line);
    }
  }

  @Test
  void offer_loadsBehindStores_overtakeThem() throws Exception {
    CountDownLatch all = new CountDownLatch(1);
    Runnable bell =
        () -> {
          // The pipeline's thread goes on from its first store when everything is offered.
          await(all);
          rung.release();
        };
    List<Transfer> offered = new ArrayList<>();
    for (int i = 0; i < DEPTH; i++) {
      Transfer transfer = block(i, 0, i);
      fill(transfer, i);
      offered.add(transfer);
    }
    // The blocks that are loaded are sound: a damaged one would be read twice.
    try (FileDevice device = open();
        Pipeline before = start(device)) {
      for (Transfer load : offered.subList(DEPTH - 4, DEPTH)) {
        assertEquals(Status.OK, run(before, load, Transfer.Kind.STORE));
      }
    }
    try (FileDevice device = open();
        Pipeline pipeline = start(device, bell)) {
      for (int i = 0; i < DEPTH; i++) {
        Transfer transfer = offered.get(i);
        transfer.kind = i < DEPTH - 4 ? Transfer.Kind.STORE : Transfer.Kind.LOAD;
        transfer.priority = (DEPTH - 1 - i) % 4;
        assertTrue(pipeline.offer(transfer));
      }
      all.countDown();
      await(pipeline, DEPTH);
      for (Transfer load : offered.subList(DEPTH - 4, DEPTH)) {
        // Some stores are in the device's hands already, but not the most of them.
        assertTrue(finished.indexOf(load) < DEPTH / 2, "loads wait behind stores");
      }
    }
  }

  @Test
  void offer_moreThanTheDepth_isRefusedUntilCollected() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      for (int i = 0; i < DEPTH; i++) {
        Transfer store = block(i, 0, i);
        fill(store, i);
        store.kind = Transfer.Kind.STORE;
        assertTrue(pipeline.offer(store));
      }
      Transfer next = block(DEPTH, 0, DEPTH);
      fill(next, DEPTH);
      next.kind = Transfer.Kind.STORE;
      assertFalse(pipeline.offer(next));
      assertEquals(DEPTH, pipeline.inFlight());
      await(pipeline, DEPTH);
      assertEquals(0, pipeline.inFlight());
      assertTrue(pipeline.offer(next));
      await(pipeline, 1);
    }
  }

  @Test
  void offer_afterSleep_isTakenUp() throws Exception {
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      // Back and forth: each offer may meet the thread awake, asleep or on its way.
      for (int i = 0; i < 500; i++) {
        Transfer.Kind kind = i % 2 == 0 ? Transfer.Kind.STORE : Transfer.Kind.LOAD;
        assertEquals(Status.OK, run(pipeline, block, kind));
        if (i % 100 == 99) {
          Thread.sleep(5);
        }
      }
    }
  }

  @Test
  void close_workInFlight_touchesNoSlabAfterwards() throws Exception {
    for (int round = 0; round < 20; round++) {
      finished.clear();
      try (FileDevice device = open();
          Arena ofSlab = Arena.ofShared()) {
        Pipeline pipeline = start(device);
        MemorySegment own = ofSlab.allocate(SLAB_BYTES, PAGE);
        for (int i = 0; i < DEPTH; i++) {
          Transfer transfer = block(i, 0, i);
          transfer.slab = own;
          fill(transfer, i);
          transfer.kind = i % 3 == 0 ? Transfer.Kind.LOAD : Transfer.Kind.STORE;
          assertTrue(pipeline.offer(transfer));
        }
        Thread.sleep(0, round * 50_000);
        pipeline.close();
        int _ = pipeline.collect(finished::add);
        int before = finished.size();
        // The slab goes with its arena: a thread that were still at work would report a defect.
        assertEquals(before + pipeline.inFlight(), DEPTH);
      }
    }
  }

  @Test
  void close_idle_returns() throws Exception {
    try (FileDevice device = open()) {
      Pipeline pipeline = start(device);
      Thread.sleep(2);
      pipeline.close();
      assertEquals(0, pipeline.inFlight());
    }
  }

  /**
   * Blocks of every codec are loaded by pipelines of all codecs, whether they get smaller or not.
   */
  @Test
  void load_whatAnotherCodecStored_hasItsBytes() throws Exception {
    String[] names = {"none", "zstd", "planes/3", "zstd/-5"};
    Transfer[] stored = new Transfer[names.length * CONTENTS];
    try (FileDevice device = open()) {
      for (int i = 0; i < stored.length; i++) {
        codec = BlockCodecs.create(names[i % names.length]);
        stored[i] = block(i, i, i / REGIONS);
        fill(stored[i], i / names.length);
        try (Pipeline pipeline = start(device)) {
          assertEquals(Status.OK, run(pipeline, stored[i], Transfer.Kind.STORE));
        }
      }
      for (String name : names) {
        codec = BlockCodecs.create(name);
        try (Pipeline pipeline = start(device)) {
          for (Transfer block : stored) {
            block.slot().fill((byte) 0x55);
            assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
            assertEquals(block.checksum, Checksums.of(block.bytes()));
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"zstd", "planes"})
  void store_withACodec_writesOnlyWhatItMade(String name) throws Exception {
    codec = BlockCodecs.create(name);
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, NOISE);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(BLOCK_BYTES, block.writtenBytes);
      byte[] before = slotBytes();
      fill(block, FEW_VALUES);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      assertTrue(block.writtenBytes < BLOCK_BYTES, block.writtenBytes + " bytes were written");
      byte[] after = slotBytes();
      int pages = (block.writtenBytes + PAGE - 1) / PAGE;
      assertTrue(pages < SLOT_BYTES / PAGE);
      for (int at = PAGE + block.writtenBytes; at < PAGE + SLOT_BYTES; at++) {
        // Padded with zeros to a whole page, and not a byte touched behind it.
        assertEquals(at < PAGE * (1 + pages) ? 0 : before[at], after[at], "byte " + at);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"zstd", "planes"})
  void load_flippedBitInWhatACodecMade_isCorrupt(String name) throws Exception {
    codec = BlockCodecs.create(name);
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, FEW_VALUES);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      Random random = new Random(1);
      for (int i = 0; i < 200; i++) {
        int at = PAGE + (i == 0 ? block.writtenBytes - 1 : random.nextInt(block.writtenBytes));
        int bit = random.nextInt(8);
        flip(block.offset + at, bit);
        assertHarmless(run(pipeline, block, Transfer.Kind.LOAD), block, "byte " + at);
        flip(block.offset + at, bit);
      }
      for (int at :
          new int[] {SlotHeaderDescriptor.CODEC_OFFSET, SlotHeaderDescriptor.STORED_BYTES_OFFSET}) {
        flip(block.offset + at, 0);
        assertEquals(Status.CORRUPT, run(pipeline, block, Transfer.Kind.LOAD), "byte " + at);
        flip(block.offset + at, 0);
      }
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  /**
   * A frame has bits without effect on the bytes: if one of them is flipped, the load may succeed.
   */
  private static void assertHarmless(Status status, Transfer block, String what) {
    if (status == Status.OK) {
      assertEquals(block.checksum, Checksums.of(block.bytes()), what);
    } else {
      assertEquals(Status.CORRUPT, status, what);
    }
  }

  /** A header that is whole but says nonsense of the codec: as a later version might write it. */
  @Test
  void load_codecOrLengthThatCanNotBe_isCorrupt() throws Exception {
    codec = BlockCodecs.create("zstd");
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      Transfer block = block(0, 0, 0);
      fill(block, FEW_VALUES);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      int stored = block.writtenBytes;
      for (int[] says :
          new int[][] {
            {0, stored},
            {0, 0},
            {2, stored},
            {77, stored},
            {1, 0},
            {1, -1},
            {1, stored - 1},
            {1, stored + 1},
            {1, BLOCK_BYTES},
            {1, Integer.MAX_VALUE},
            {1, Integer.MIN_VALUE}
          }) {
        rewriteHeader((byte) says[0], says[1]);
        assertEquals(
            Status.CORRUPT, run(pipeline, block, Transfer.Kind.LOAD), Arrays.toString(says));
      }
      rewriteHeader((byte) 1, stored);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "zstd", "planes"})
  void randomOperations_everyLoadHasTheBytesLastStored(String name) throws Exception {
    codec = BlockCodecs.create(name);
    long seed = new Random().nextLong();
    try (FileDevice device = open();
        Pipeline pipeline = start(device)) {
      randomOperations(pipeline, new Random(seed), 10_000);
    } catch (AssertionError e) {
      throw new AssertionError("seed " + seed + ": " + e.getMessage(), e);
    }
  }

  private void randomOperations(Pipeline pipeline, Random random, int count)
      throws InterruptedException {
    Deque<Transfer> free = new ArrayDeque<>();
    boolean[] stored = new boolean[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
      free.add(block(i, i % REGIONS, i / REGIONS));
    }
    int[] contents = new int[SLOTS];
    int offered = 0;
    int ended = 0;
    while (ended < count) {
      Transfer next = offered < count ? free.poll() : null;
      if (next != null) {
        boolean load = stored[next.poolIndex] && random.nextBoolean();
        next.kind = load ? Transfer.Kind.LOAD : Transfer.Kind.STORE;
        next.priority = random.nextInt(4);
        if (load) {
          next.slot().fill((byte) 0);
        } else {
          contents[next.poolIndex] = random.nextInt();
          next.length = 1 + random.nextInt(SLOT_BYTES);
          fill(next, contents[next.poolIndex]);
        }
        if (pipeline.offer(next)) {
          offered++;
          if (random.nextInt(4) != 0) {
            continue;
          }
        } else {
          // A load's bytes are gone, a store's were never written: it begins anew.
          stored[next.poolIndex] = false;
          free.push(next);
        }
      }
      assertTrue(rung.tryAcquire(30, TimeUnit.SECONDS), "nothing ends any more");
      finished.clear();
      ended += pipeline.collect(finished::add);
      for (Transfer transfer : finished) {
        assertEquals(Status.OK, transfer.status);
        assertEquals(transfer.checksum, Checksums.of(transfer.bytes()));
        stored[transfer.poolIndex] = true;
        free.add(transfer);
      }
    }
    assertEquals(0, pipeline.inFlight());
  }

  /** A block's transfer: its host slot by number, its SSD slot by region and number. */
  Transfer block(int number, int region, int ssdSlot) {
    Transfer transfer = new Transfer(number);
    for (int i = 0; i < transfer.key.length; i++) {
      transfer.key[i] = (byte) (number * 31 + i);
    }
    transfer.keyBytes = transfer.key.length;
    transfer.namespaceHigh = 0x1234;
    transfer.namespaceLow = 0x5678;
    transfer.group = 3;
    transfer.generation = 9;
    transfer.slab = slab;
    transfer.slabOffset = (long) number * SLOT_BYTES % SLAB_BYTES;
    transfer.length = BLOCK_BYTES;
    transfer.slotBytes = SLOT_BYTES;
    transfer.region = region % REGIONS;
    transfer.offset = (long) ssdSlot % (SLOTS / REGIONS) * SSD_SLOT_BYTES;
    return transfer;
  }

  /**
   * Fills a block's host slot and tells the transfer its checksum: with noise, with elements of two
   * bytes that have few values, or with zeros.
   */
  static void fill(Transfer transfer, int content) {
    MemorySegment bytes = transfer.bytes();
    byte[] random = new byte[transfer.length];
    int kind = Math.floorMod(content, CONTENTS);
    if (kind != ZEROS) {
      new Random(content).nextBytes(random);
    }
    for (int i = 0; kind == FEW_VALUES && i < random.length; i++) {
      random[i] &= (byte) (i % 2 == 0 ? 0x0f : 1);
    }
    MemorySegment.copy(random, 0, bytes, ValueLayout.JAVA_BYTE, 0, random.length);
    transfer.checksum = Checksums.of(bytes);
  }

  Status run(Pipeline pipeline, Transfer transfer, Transfer.Kind kind) throws InterruptedException {
    transfer.kind = kind;
    transfer.status = Status.BUSY;
    assertTrue(pipeline.offer(transfer));
    await(pipeline, 1);
    assertNotEquals(Status.BUSY, transfer.status);
    return transfer.status;
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Collects that many transfers. */
  private void await(Pipeline pipeline, int count) throws InterruptedException {
    finished.clear();
    while (finished.size() < count) {
      assertTrue(rung.tryAcquire(30, TimeUnit.SECONDS), "nothing ends any more");
      int _ = pipeline.collect(finished::add);
    }
    assertEquals(count, finished.size());
    assertFalse(pipeline.hasFinished());
  }

  private RandomAccessFile regionFile() throws IOException {
    return new RandomAccessFile(directory.resolve("slots-0000.dat").toFile(), "rw");
  }

  private void flip(long at) throws IOException {
    flip(at, 0);
  }

  private void flip(long at, int bit) throws IOException {
    try (RandomAccessFile file = regionFile()) {
      file.seek(at);
      int was = file.read();
      file.seek(at);
      file.write(was ^ 1 << bit);
    }
  }

  /** The first slot as it stands in the first file. */
  private byte[] slotBytes() throws IOException {
    byte[] bytes = new byte[SSD_SLOT_BYTES];
    try (RandomAccessFile file = regionFile()) {
      file.readFully(bytes);
    }
    return bytes;
  }

  /** Says something else of the codec in the first slot's header, with a checksum that agrees. */
  private void rewriteHeader(byte codecId, int storedBytes) throws IOException {
    byte[] slot = slotBytes();
    ByteBuffer header = ByteBuffer.wrap(slot, 0, PAGE).order(ByteOrder.LITTLE_ENDIAN);
    header.put(SlotHeaderDescriptor.CODEC_OFFSET, codecId);
    header.putInt(SlotHeaderDescriptor.STORED_BYTES_OFFSET, storedBytes);
    CRC32C crc = new CRC32C();
    crc.update(
        slot,
        SlotHeaderDescriptor.CHECKED_BEGIN,
        SlotHeaderDescriptor.CHECKED_END - SlotHeaderDescriptor.CHECKED_BEGIN);
    header.putInt(SlotHeaderDescriptor.HEADER_CHECKSUM_OFFSET, (int) crc.getValue());
    try (RandomAccessFile file = regionFile()) {
      file.write(slot);
    }
  }
}

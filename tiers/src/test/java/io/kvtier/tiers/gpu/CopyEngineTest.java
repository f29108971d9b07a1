package io.kvtier.tiers.gpu;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.RunGrid;
import io.kvtier.layout.Runs;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Every strategy copies every byte, whatever order the GPU does its work in. */
final class CopyEngineTest {
  private static final CopyOptions SMALL = new CopyOptions(3, 8192, 32, 4, 4, 2, 2, 16);
  private static final List<CopyStrategy> RAW =
      Arrays.stream(CopyStrategy.values()).filter(CopyStrategy::isForRaw).toList();

  private final Arena arena = Arena.ofShared();

  @AfterEach
  void closeArena() {
    arena.close();
  }

  /** Copies scattered runs of all lengths, there and back, and compares. */
  private void roundTrips(CopyStrategy strategy, long seed, boolean hasBatchCopies) {
    Random random = new Random(seed);
    FakeGpu gpu = new FakeGpu(seed);
    gpu.hasBatchCopies = hasBatchCopies;
    int blockBytes = 1 + random.nextInt(30_000);
    int blocks = 1 + random.nextInt(8);
    MemorySegment first = arena.allocate(2L * blocks * blockBytes, 16);
    MemorySegment second = arena.allocate(2L * blocks * blockBytes, 16);
    MemorySegment host = arena.allocate((long) blocks * blockBytes, 16);
    FakeGpu.fill(first, random);
    FakeGpu.fill(second, random);
    FakeGpu.fill(host, random);
    List<List<int[]>> cuts = new ArrayList<>();
    for (int i = 0; i < blocks; i++) {
      cuts.add(cut(blockBytes, random));
    }

    for (CopyDirection direction : List.of(CopyDirection.OFFLOAD, CopyDirection.ONBOARD)) {
      CopyEngine engine = new CopyEngine(gpu, direction, SMALL, StrategyTable.only(strategy));
      List<Copy> copies = new ArrayList<>();
      for (int block = 0; block < blocks; block++) {
        MemorySegment device = direction == CopyDirection.OFFLOAD ? first : second;
        Copy copy = new Copy();
        copy.tag = block;
        for (int[] run : cuts.get(block)) {
          // Twice as far apart on the device.
          copy.runs.add(
              device.address() + 2L * block * blockBytes + 2L * run[0],
              host.address() + (long) block * blockBytes + run[0],
              run[1]);
        }
        copies.add(copy);
      }
      submitAndAwait(engine, copies);
      copies.forEach(copy -> assertEquals(Status.OK, copy.status));
      engine.close();
    }
    for (int block = 0; block < blocks; block++) {
      for (int[] run : cuts.get(block)) {
        long at = 2L * block * blockBytes + 2L * run[0];
        assertEquals(
            -1,
            first.asSlice(at, run[1]).mismatch(second.asSlice(at, run[1])),
            () -> strategy + ", seed " + seed);
      }
    }
    assertTrue(gpu.hasNothingLeft());
    gpu.close();
  }

  @Test
  void open_aCallFails_allIsGivenBack() {
    int calls = 0;
    boolean isOpen = false;
    while (!isOpen) {
      FakeGpu gpu = new FakeGpu(1);
      gpu.callsUntilFailure = calls;
      try {
        CopyEngine engine =
            new CopyEngine(
                gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.PLAIN));
        isOpen = true;
        engine.close();
      } catch (GpuException e) {
        calls++;
      }
      assertTrue(gpu.hasNothingLeft(), "call " + calls);
      gpu.close();
    }
    // Device memory, host memory, three streams, two events a batch.
    assertEquals(5 + 2 * SMALL.slots(), calls);
  }

  /**
   * Copies blocks whose entries are grids of any kind, there and back, and compares every byte,
   * those of the gaps too.
   */
  private void gridsRoundTrip(CopyStrategy strategy, long seed, boolean hasBatchCopies) {
    Random random = new Random(seed);
    FakeGpu gpu = new FakeGpu(seed);
    gpu.hasBatchCopies = hasBatchCopies;
    Runs places = new Runs();
    Runs backPlaces = new Runs();
    long deviceBytes = 0;
    long hostBytes = 0;
    List<RunGrid> grids = new ArrayList<>();
    List<Long> deviceStarts = new ArrayList<>();
    List<Long> hostStarts = new ArrayList<>();
    int entries = 1 + random.nextInt(12);
    for (int i = 0; i < entries; i++) {
      // Often the grid of the entry before, as of the next layer.
      RunGrid grid = i > 0 && random.nextInt(3) > 0 ? grids.get(i - 1) : anyGrid(random);
      deviceBytes += random.nextInt(3);
      hostBytes += random.nextInt(3) == 0 ? random.nextInt(40) : 0;
      grids.add(grid);
      deviceStarts.add(deviceBytes);
      hostStarts.add(hostBytes);
      deviceBytes += grid.deviceExtent();
      hostBytes += grid.hostExtent();
    }
    MemorySegment first = arena.allocate(deviceBytes, 16);
    MemorySegment second = arena.allocate(deviceBytes, 16);
    MemorySegment host = arena.allocate(hostBytes, 16);
    for (MemorySegment memory : List.of(first, second, host)) {
      FakeGpu.fill(memory, random);
    }
    MemorySegment expectedHost = arena.allocate(hostBytes, 16).copyFrom(host);
    MemorySegment expectedSecond = arena.allocate(deviceBytes, 16).copyFrom(second);
    for (int i = 0; i < entries; i++) {
      RunGrid grid = grids.get(i);
      for (int run = 0; run < grid.runs(); run++) {
        long device = deviceStarts.get(i) + grid.deviceOffset(run);
        long place = hostStarts.get(i) + grid.hostOffset(run);
        MemorySegment bytes = first.asSlice(device, grid.runBytes());
        expectedHost.asSlice(place, grid.runBytes()).copyFrom(bytes);
        expectedSecond.asSlice(device, grid.runBytes()).copyFrom(bytes);
      }
      add(places, grid, first.address() + deviceStarts.get(i), host.address() + hostStarts.get(i));
      add(
          backPlaces,
          grid,
          second.address() + deviceStarts.get(i),
          host.address() + hostStarts.get(i));
    }
    copyGrids(gpu, CopyDirection.OFFLOAD, strategy, places);
    copyGrids(gpu, CopyDirection.ONBOARD, strategy, backPlaces);
    assertEquals(-1, expectedHost.mismatch(host), () -> strategy + " out, seed " + seed);
    assertEquals(-1, expectedSecond.mismatch(second), () -> strategy + " in, seed " + seed);
    assertTrue(gpu.hasNothingLeft());
    gpu.close();
  }

  private static void add(Runs runs, RunGrid grid, long device, long host) {
    if (grid.runs() == 1) {
      runs.add(device, host, grid.runBytes());
    } else {
      runs.add(device, host, grid);
    }
  }

  private static void copyGrids(
      FakeGpu gpu, CopyDirection direction, CopyStrategy strategy, Runs runs) {
    CopyEngine engine = new CopyEngine(gpu, direction, SMALL, StrategyTable.only(strategy));
    Copy copy = new Copy();
    for (int i = 0; i < runs.entries(); i++) {
      RunGrid grid = runs.grid(i);
      if (grid == null) {
        copy.runs.addSeparate(runs.deviceAddress(i), runs.hostAddress(i), runs.bytes(i));
      } else {
        copy.runs.add(runs.deviceAddress(i), runs.hostAddress(i), grid);
      }
    }
    submitAndAwait(engine, List.of(copy));
    assertEquals(Status.OK, copy.status);
    assertEquals(runs.totalBytes(), engine.bytesBy(strategy));
    engine.close();
  }

  /** Up to three dimensions; on the host in their order, on the device in any order. */
  private static RunGrid anyGrid(Random random) {
    int runBytes = 1 + random.nextInt(random.nextInt(4) == 0 ? 6000 : 40);
    int count = random.nextInt(4);
    int[] counts = new int[count];
    long[] deviceStrides = new long[count];
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      counts[i] = 1 + random.nextInt(7);
      order.add(i);
    }
    Collections.shuffle(order, random);
    long stride = runBytes;
    for (int i : order) {
      stride += random.nextInt(3) == 0 ? random.nextInt(20) : 0;
      deviceStrides[i] = stride;
      stride *= counts[i];
    }
    List<RunGrid.Dimension> dimensions = new ArrayList<>();
    long hostStride = runBytes;
    for (int i = 0; i < count; i++) {
      hostStride += random.nextInt(3) == 0 ? random.nextInt(20) : 0;
      dimensions.add(new RunGrid.Dimension(counts[i], deviceStrides[i], hostStride));
      hostStride *= counts[i];
    }
    return RunGrid.of(runBytes, dimensions);
  }

  @ParameterizedTest
  @EnumSource(value = CopyStrategy.class, names = "ENCODED", mode = EnumSource.Mode.EXCLUDE)
  void gridsOfAnyKind_thereAndBack_areTheSameBits(CopyStrategy strategy) {
    for (long seed = 0; seed < 150; seed++) {
      gridsRoundTrip(strategy, seed, seed % 3 != 0);
    }
  }

  private static List<int[]> cut(int bytes, Random random) {
    List<int[]> runs = new ArrayList<>();
    int longest = 1 + random.nextInt(bytes);
    for (int at = 0; at < bytes; ) {
      int length = Math.min(bytes - at, 1 + random.nextInt(longest));
      runs.add(new int[] {at, length});
      at += length;
    }
    return runs;
  }

  private static void submitAndAwait(CopyEngine engine, List<Copy> copies) {
    List<Copy> finished = new ArrayList<>();
    for (Copy copy : copies) {
      while (!engine.submit(copy)) {
        engine.poll(finished::add);
      }
    }
    drain(engine, finished::add);
    assertEquals(copies.size(), finished.size());
  }

  private static void drain(CopyEngine engine, Consumer<Copy> finished) {
    int polls = 0;
    while (engine.inFlight() > 0) {
      engine.poll(finished);
      assertTrue(++polls < 10_000_000, "the engine makes no progress");
    }
  }

  @ParameterizedTest
  @EnumSource(value = CopyStrategy.class, names = "ENCODED", mode = EnumSource.Mode.EXCLUDE)
  void copies_thereAndBack_areTheSameBits(CopyStrategy strategy) {
    for (long seed = 0; seed < 150; seed++) {
      roundTrips(strategy, seed, seed % 3 != 0);
    }
  }

  @Test
  void submit_asManyAsTheDepth_refusesTheNext() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.KERNEL));
    MemorySegment memory = arena.allocate(64, 16);
    for (int i = 0; i < SMALL.depth(); i++) {
      assertTrue(engine.submit(copy(memory.address(), memory.address() + 32, 32)));
    }
    assertFalse(engine.submit(copy(memory.address(), memory.address() + 32, 32)));
    drain(engine, _ -> {});
    assertTrue(engine.submit(copy(memory.address(), memory.address() + 32, 32)));
  }

  @Test
  void submit_copyWithoutRuns_isFinished() {
    FakeGpu gpu = new FakeGpu(1);
    for (CopyStrategy strategy : CopyStrategy.values()) {
      CopyEngine engine =
          new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(strategy));
      submitAndAwait(engine, List.of(new Copy()));
      engine.close();
    }
  }

  @Test
  void submit_copyThatWaitsForAnEvent_beginsAfterItAndHoldsUpNoOther() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.STAGED));
    GpuStream engines = gpu.createStream(true);
    GpuStream other = gpu.createStream(true);
    GpuEvent gate = gpu.createEvent();
    GpuEvent ready = gpu.createEvent();
    // The engine's stream waits, so that what it computes is late.
    gpu.record(gate, other);
    MemorySegment memory = arena.allocate(256, 16);
    FakeGpu.fill(memory, new Random(1));
    gpu.await(engines, gate);
    gpu.copy(engines, memory.address(), memory.address() + 128, 64);
    gpu.record(ready, engines);

    Copy late = copy(memory.address(), memory.address() + 64, 64);
    late.after = ready;
    Copy early = copy(memory.address() + 128, memory.address() + 192, 64);
    assertTrue(engine.submit(late));
    assertTrue(engine.submit(early));
    List<Copy> finished = new ArrayList<>();
    drain(engine, finished::add);
    assertEquals(2, finished.size());
    assertEquals(-1, memory.asSlice(64, 64).mismatch(memory.asSlice(128, 64)));
    assertEquals(-1, memory.asSlice(192, 64).mismatch(memory.asSlice(128, 64)));
  }

  @Test
  void poll_driverFails_handsEverythingBackAndFences() {
    for (CopyStrategy strategy : RAW) {
      for (int calls = 0; calls < 60; calls++) {
        FakeGpu gpu = new FakeGpu(calls);
        CopyEngine engine =
            new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(strategy));
        MemorySegment memory = arena.allocate(32_768, 16);
        List<Copy> finished = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
          assertTrue(engine.submit(copy(memory.address(), memory.address() + 16_384, 16_384)));
        }
        gpu.callsUntilFailure = calls;
        drain(engine, finished::add);
        assertEquals(12, finished.size());
        if (engine.fence() != null) {
          assertTrue(finished.stream().anyMatch(copy -> copy.status == Status.IO_ERROR));
          Copy next = copy(memory.address(), memory.address() + 64, 64);
          assertTrue(engine.submit(next));
          assertEquals(1, engine.inFlight());
          drain(engine, finished::add);
          assertEquals(Status.IO_ERROR, next.status);
        } else {
          assertTrue(finished.stream().allMatch(copy -> copy.status == Status.OK));
        }
      }
    }
  }

  @Test
  void poll_firstCallFails_namesTheError() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine =
        new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, StrategyTable.only(CopyStrategy.PLAIN));
    assertNull(engine.fence());
    gpu.callsUntilFailure = 0;
    MemorySegment memory = arena.allocate(64, 16);
    assertTrue(engine.submit(copy(memory.address(), memory.address() + 32, 32)));
    drain(engine, _ -> {});
    assertEquals("CUDA_ERROR_ILLEGAL_ADDRESS", engine.fence());
  }

  @ParameterizedTest
  @EnumSource(
      value = CopyDirection.class,
      names = {"OFFLOAD", "ONBOARD"})
  void poll_kernelsFindNoRoom_goesOnByTheCopyEnginesUntilTheyDo(CopyDirection direction) {
    FakeGpu gpu = new FakeGpu(1);
    StrategyTable table =
        new StrategyTable(
            List.of(
                new StrategyTable.Measured(
                    64, 64, Map.of(CopyStrategy.BATCH, 1.0, CopyStrategy.STAGED, 2.0)),
                new StrategyTable.Measured(256, 64, Map.of(CopyStrategy.BATCH, 2.0))),
            0.97);
    long[] now = new long[1];
    CopyEngine engine = new CopyEngine(gpu, direction, SMALL, table, () -> now[0]);
    MemorySegment memory = arena.allocate(16_000, 16);
    List<Copy> finished = new ArrayList<>();

    gpu.holdsKernels = true;
    submitSome(engine, memory, 12, now, finished);
    assertEquals(11, finished.size(), "all but the one that looks whether there is room");
    assertEquals(1, gpu.kernels);

    gpu.holdsKernels = false;
    submitSome(engine, memory, 12, new long[1], finished);
    drain(engine, finished::add);
    assertEquals(1, gpu.kernels, "the next trial costs the engine time, and is due later");

    now[0] += 20_000_000;
    submitSome(engine, memory, 12, new long[1], finished);
    drain(engine, finished::add);
    int batches = gpu.batchCopies;
    submitSome(engine, memory, 12, new long[1], finished);
    drain(engine, finished::add);
    assertEquals(batches, gpu.batchCopies, "with room again, nothing goes around the kernel");
    assertEquals(1 + 24, gpu.kernels);
  }

  /**
   * Copies one after the other, so that each is a batch of its own; time passes with every poll.
   */
  private static void submitSome(
      CopyEngine engine, MemorySegment memory, int count, long[] now, List<Copy> finished) {
    for (int i = 0; i < count; i++) {
      Copy copy = new Copy();
      for (int run = 0; run < 4; run++) {
        copy.runs.add(memory.address() + 128L * run, memory.address() + 8_000 + 64L * run, 64);
      }
      assertTrue(engine.submit(copy));
      for (int j = 0; j < 100; j++) {
        engine.poll(finished::add);
        now[0] += 10_000;
      }
    }
  }

  /** One as it is in use, which knows a single strategy. */
  private static CopyEngine usualEngine(FakeGpu gpu, CopyStrategy strategy) {
    return new CopyEngine(
        gpu, CopyDirection.OFFLOAD, CopyOptions.DEFAULT, StrategyTable.only(strategy));
  }

  @ParameterizedTest
  @CsvSource({
    "2097152, 32, 4",
    "32768, 512, 4",
    "131072, 256, 2",
    "65536, 256, 4",
    "4096, 2048, 2"
  })
  void batch_callsTakeAsMuchAsTheDriverIsQuickWith(int runBytes, int runs, int calls) {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = usualEngine(gpu, CopyStrategy.BATCH);
    MemorySegment memory = arena.allocate(3L * runs * runBytes, 16);
    Copy copy = new Copy();
    for (int i = 0; i < runs; i++) {
      copy.runs.add(
          memory.address() + (long) (runs + 2 * i) * runBytes,
          memory.address() + (long) i * runBytes,
          runBytes);
    }
    submitAndAwait(engine, List.of(copy));
    assertEquals(calls, gpu.batchCopies);
    engine.close();
  }

  @Test
  void staged_blockInOnePieceOnTheHost_takesOneKernelAndOneCopy() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = usualEngine(gpu, CopyStrategy.STAGED);
    MemorySegment memory = arena.allocate(4 << 20, 16);
    Copy copy = new Copy();
    for (int i = 0; i < 64; i++) {
      copy.runs.add(
          memory.address() + (2L << 20) + i * 20_000L, memory.address() + i * 10_000L, 10_000);
    }
    submitAndAwait(engine, List.of(copy));
    assertEquals(1, gpu.kernels);
    assertEquals(1, gpu.plainCopies);
    engine.close();
  }

  @Test
  void submit_littleBehindMuchThatIsUnderWay_isCopiedAsMuchIs() {
    FakeGpu gpu = new FakeGpu(1);
    StrategyTable table =
        new StrategyTable(
            List.of(
                new StrategyTable.Measured(512, 1 << 10, Map.of(CopyStrategy.PLAIN, 1.0)),
                new StrategyTable.Measured(512, 8 << 10, Map.of(CopyStrategy.STAGED, 1.0))),
            1);
    CopyEngine engine = new CopyEngine(gpu, CopyDirection.OFFLOAD, SMALL, table);
    MemorySegment memory = arena.allocate(2L * 8192, 16);
    gpu.holdsKernels = true;
    // 8 KiB, and then 1 KiB by itself.
    assertTrue(engine.submit(copies(memory, 16)));
    engine.poll(_ -> {});
    assertTrue(engine.submit(copies(memory, 2)));
    engine.poll(_ -> {});
    assertEquals(9 << 10, engine.bytesBy(CopyStrategy.STAGED));
    gpu.holdsKernels = false;
    drain(engine, _ -> {});
    assertTrue(engine.submit(copies(memory, 2)));
    drain(engine, _ -> {});
    assertEquals(9 << 10, engine.bytesBy(CopyStrategy.STAGED));
    assertEquals(1 << 10, engine.bytesBy(CopyStrategy.PLAIN));
    engine.close();
  }

  /** One copy of runs of 512 bytes, between the halves of a memory; apart from one another. */
  @Test
  void submit_shardsThatLieInShortPiecesOnTheHost_areNotStaged() {
    FakeGpu gpu = new FakeGpu(1);
    Map<CopyStrategy, Double> shortOnes =
        Map.of(CopyStrategy.BATCH, 1.0, CopyStrategy.STAGED, 50.0, CopyStrategy.KERNEL, 52.0);
    Map<CopyStrategy, Double> longOnes = Map.of(CopyStrategy.BATCH, 52.0);
    StrategyTable table =
        new StrategyTable(
            List.of(
                new StrategyTable.Measured(512, 8 << 10, shortOnes),
                new StrategyTable.Measured(8 << 10, 8 << 10, longOnes)),
            1);
    CopyEngine engine = new CopyEngine(gpu, CopyDirection.ONBOARD, SMALL, table);
    MemorySegment memory = arena.allocate(4L * 8192, 16);
    Copy whole = new Copy();
    Copy shard = new Copy();
    for (int i = 0; i < 16; i++) {
      long host = memory.address() + 16_384;
      whole.runs.add(memory.address() + 1024L * i, host + 512L * i, 512);
      shard.runs.add(memory.address() + 512L * i, host + 1024L * i, 512);
    }
    assertTrue(engine.submit(whole));
    drain(engine, _ -> {});
    assertEquals(8 << 10, engine.bytesBy(CopyStrategy.STAGED));
    assertTrue(engine.submit(shard));
    drain(engine, _ -> {});
    assertEquals(8 << 10, engine.bytesBy(CopyStrategy.STAGED));
    assertEquals(8 << 10, engine.bytesBy(CopyStrategy.KERNEL));
    engine.close();
  }

  private static Copy copies(MemorySegment memory, int runs) {
    long half = memory.byteSize() / 2;
    Copy copy = new Copy();
    for (int i = 0; i < runs; i++) {
      copy.runs.addSeparate(memory.address() + half + i * 512L, memory.address() + i * 512L, 512);
    }
    return copy;
  }

  @Test
  void calibrate_anyGpu_measuresAllThatThereIs() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine =
        new CopyEngine(
            gpu,
            CopyDirection.OFFLOAD,
            CopyOptions.DEFAULT,
            StrategyTable.only(CopyStrategy.KERNEL));
    gpu.hasBatchCopies = false;
    StrategyTable table = Calibration.calibrate(gpu, engine, 0.97);
    assertEquals(table, engine.strategies());
    assertTrue(
        table.measured().stream()
            .allMatch(row ->
                row.bytesPerNs().size() == 3 && !row.bytesPerNs().containsKey(CopyStrategy.BATCH)));
    engine.close();
    assertTrue(gpu.hasNothingLeft());
  }

  /** The engine of the GPU's owner has taken nearly all: so many MiB are left. */
  @ParameterizedTest
  @CsvSource({"63, 16", "8, 4", "7, 2", "4, 2"})
  void calibrate_littleMemory_measuresWithFewerBlocks(long freeMib, long mostMib) {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = fullEngine(gpu, freeMib << 20);
    StrategyTable table = Calibration.calibrate(gpu, engine, 0.97);
    assertEquals(table, engine.strategies());
    assertEquals(
        mostMib << 20,
        table.measured().stream().mapToLong(StrategyTable.Measured::copyBytes).max().orElse(0));
    engine.close();
    assertTrue(gpu.hasNothingLeft());
  }

  @Test
  void calibrate_noMemoryForABlock_copiesPlainly() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = fullEngine(gpu, (4 << 20) - 1);
    StrategyTable table = Calibration.calibrate(gpu, engine, 0.97);
    assertEquals(table, engine.strategies());
    assertEquals(CopyStrategy.PLAIN, table.choose(4096, 2 << 20, 32 << 20, false));
    engine.close();
    assertTrue(gpu.hasNothingLeft());
  }

  /** A machine that is held up for a while chooses as one that is not, whenever that happens. */
  @Test
  void calibrate_machineHeldUpForAWhile_choosesTheSame() {
    FakeGpu quiet = new FakeGpu(1);
    List<CopyStrategy> best = bestWhenCalibrated(quiet);
    assertTrue(best.containsAll(List.of(CopyStrategy.STAGED, CopyStrategy.PLAIN)), best::toString);
    for (int i = 0; i < 20; i++) {
      FakeGpu gpu = new FakeGpu(1);
      gpu.slowFromNs = quiet.nowNs * i / 20;
      gpu.slowUntilNs = gpu.slowFromNs + 5_000_000;
      assertEquals(best, bestWhenCalibrated(gpu), "held up from " + gpu.slowFromNs + " ns on");
    }
  }

  @Test
  void calibrate_shortRuns_areTakenTogether() {
    FakeGpu gpu = new FakeGpu(1);
    try (CopyEngine engine = fullEngine(gpu, 8 << 20)) {
      StrategyTable table =
          Calibration.calibrate(gpu, engine, 0.97, EncodingMode.ALWAYS, clockOf(gpu));
      assertEquals(CopyStrategy.STAGED, table.choose(256, 2 << 20, 4 << 20, false));
      assertEquals(CopyStrategy.KERNEL, table.choose(256, 1 << 10, 4 << 20, false));
      assertEquals(CopyStrategy.KERNEL, table.choose(1 << 10, 1 << 10, 4 << 20, false));
    }
  }

  /** The time of this GPU, which takes no time to warm up. */
  private static Calibration.Clock clockOf(FakeGpu gpu) {
    return new Calibration.Clock(() -> gpu.nowNs, 0);
  }

  private static List<CopyStrategy> bestWhenCalibrated(FakeGpu gpu) {
    try (CopyEngine engine = fullEngine(gpu, 8 << 20)) {
      return Calibration.calibrate(gpu, engine, 0.97, EncodingMode.ALWAYS, clockOf(gpu))
          .measured()
          .stream()
          .map(row -> row.best(0.97))
          .toList();
    }
  }

  /** Encoded copies have fewer bytes for the link, so only a slow kernel makes them slow. */
  @ParameterizedTest
  @EnumSource(
      value = CopyDirection.class,
      names = {"OFFLOAD", "ONBOARD"})
  void calibrate_encodedCopies_areMeasuredWhereThereIsAChoice(CopyDirection direction) {
    assertTrue(speeds(direction, 0).isEncodedAtLeast(1.2));
    assertFalse(speeds(direction, 1_000_000).isEncodedAtLeast(0.5));
  }

  @Test
  void calibrate_encodedCopiesWithoutAChoice_areNotMeasured() {
    FakeGpu gpu = new FakeGpu(1);
    try (CopyEngine engine = fullEngine(gpu, 8 << 20)) {
      StrategyTable table =
          Calibration.calibrate(gpu, engine, 0.97, EncodingMode.ALWAYS, clockOf(gpu));
      assertNull(table.formSpeeds(4 << 10));
      assertEquals(0, engine.bytesBy(CopyStrategy.ENCODED));
    }
  }

  private static FormSpeeds speeds(CopyDirection direction, long codingNs) {
    FakeGpu gpu = new FakeGpu(1);
    gpu.codingNs = codingNs;
    gpu.memoryBytes = CopyOptions.DEFAULT.stagingBytes() + (8 << 20);
    try (CopyEngine engine =
        new CopyEngine(
            gpu, direction, CopyOptions.DEFAULT, StrategyTable.only(CopyStrategy.KERNEL))) {
      StrategyTable table =
          Calibration.calibrate(gpu, engine, 0.97, EncodingMode.AUTO, clockOf(gpu));
      return requireNonNull(table.formSpeeds(4 << 10));
    }
  }

  @Test
  void calibrate_brokenGpu_isNotTakenForAFullOne() {
    FakeGpu gpu = new FakeGpu(1);
    CopyEngine engine = fullEngine(gpu, 64 << 20);
    gpu.isBroken = true;
    GpuException broken =
        assertThrows(GpuException.class, () -> Calibration.calibrate(gpu, engine, 0.97));
    assertEquals(214, broken.code());
    engine.close();
  }

  private static CopyEngine fullEngine(FakeGpu gpu, long freeBytes) {
    gpu.memoryBytes = CopyOptions.DEFAULT.stagingBytes() + freeBytes;
    return new CopyEngine(
        gpu, CopyDirection.OFFLOAD, CopyOptions.DEFAULT, StrategyTable.only(CopyStrategy.KERNEL));
  }

  private static Copy copy(long device, long host, int bytes) {
    Copy copy = new Copy();
    copy.runs.add(device, host, bytes);
    return copy;
  }
}

package io.kvtier.tiers.gpu;

import io.kvtier.layout.RunGrid;
import io.kvtier.layout.Runs;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleRuns;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a lane gives to the GPU at once: runs of one copy or several, a slot of staging memory that
 * holds them all, and the tables that describe them. Its memory is used again when its last event
 * is done, not before.
 */
final class CopyBatch {
  /** Staged bytes that are not one piece with those before begin at a multiple of this. */
  private static final int STAGING_ALIGNMENT_BYTES = 256;

  private static final long MEMORY_ALIGNMENT_BYTES = 64;

  /** The most of a batched call: the copy engine's pause behind it is a hundredth of it. */
  private static final int BATCH_CALL_BYTES = 16 << 20;

  /**
   * The same of short runs: for more of them the driver takes longer than the copies themselves.
   */
  private static final int SHORT_RUNS_CALL_BYTES = 4 << 20;

  private static final int LONG_RUN_BYTES = 128 << 10;

  /** The most of a kernel between siblings: 40 us of NVLink. */
  private static final int PEER_BYTES = 16 << 20;

  /** A kernel that finds room takes a tenth of this. */
  private static final long LATE_NS = 200_000;

  private final Gpu gpu;
  private final CopyOptions options;
  private final CopyDirection direction;
  private final long staging;

  /** What the kernel copies. */
  private final RunTable table;

  /** What the copy engine copies. */
  private final MemorySegment targets;

  private final MemorySegment sources;
  private final MemorySegment lengths;

  /** What kernels say of encoded blocks: a byte for each place. */
  private final MemorySegment flaws;

  private final long flawsAddress;
  private final GpuEvent halfway;
  private final GpuEvent done;

  /** How many copies the copy engine makes. */
  private int pieces;

  /** Where the last piece ends on the host. */
  private long hostEnd;

  /** With the gaps in the staging memory. */
  private int bytes;

  private int copiedBytes;

  /** Whose runs are in this batch, or some of them. */
  final List<Copy> copies = new ArrayList<>();

  /** The copy of each place of an encoded block, and the number of the block there. */
  private final List<Copy> placeCopies = new ArrayList<>();

  private int[] placeBlocks = new int[64];

  /** How its blocks are encoded; null: they are raw. */
  private @Nullable BlockEncoding encoding;

  private CopyStrategy strategy = CopyStrategy.PLAIN;
  private boolean kernelIsDue;
  private boolean kernelIsLate;
  private boolean kernelIsOver;
  private long kernelDueNs;

  CopyBatch(
      Gpu gpu,
      GpuResources resources,
      CopyOptions options,
      CopyDirection direction,
      long staging,
      MemorySegment memory,
      long memoryAddress) {
    this.gpu = gpu;
    this.options = options;
    this.direction = direction;
    this.staging = staging;
    long tableBytes = RunTable.bytes(options.slotRuns());
    long wordBytes = (long) options.slotRuns() * Long.BYTES;
    table = new RunTable(memory.asSlice(0, tableBytes), memoryAddress, options.slotRuns());
    targets = memory.asSlice(tableBytes, wordBytes);
    sources = memory.asSlice(tableBytes + wordBytes, wordBytes);
    lengths = memory.asSlice(tableBytes + 2 * wordBytes, wordBytes);
    flaws = memory.asSlice(tableBytes + 3 * wordBytes, options.slotRuns());
    flawsAddress = memoryAddress + tableBytes + 3 * wordBytes;
    halfway = resources.createEvent();
    done = resources.createEvent();
  }

  /** The host memory that a batch takes for its tables. */
  static long memoryBytes(CopyOptions options) {
    long bytes = RunTable.bytes(options.slotRuns()) + options.slotRuns() * (3L * Long.BYTES + 1);
    return (bytes + MEMORY_ALIGNMENT_BYTES - 1) & -MEMORY_ALIGNMENT_BYTES;
  }

  /** Forgets what was in it, to be filled anew. */
  void begin(CopyStrategy launchedBy) {
    strategy = launchedBy;
    kernelIsDue = false;
    kernelIsLate = false;
    kernelIsOver = false;
    pieces = 0;
    hostEnd = 0;
    bytes = 0;
    copiedBytes = 0;
    copies.clear();
    flaws.asSlice(0, placeCopies.size()).fill((byte) 0);
    placeCopies.clear();
    encoding = null;
    boolean isOut = direction == CopyDirection.OFFLOAD;
    table.begin(
        isStaged()
            ? (isOut ? RunTable.Sides.DEVICE_TO_STAGING : RunTable.Sides.STAGING_TO_DEVICE)
            : (isOut ? RunTable.Sides.DEVICE_TO_HOST : RunTable.Sides.HOST_TO_DEVICE));
  }

  /** Whether a copy's blocks are encoded as those that are in this batch. */
  boolean suits(Copy copy) {
    BlockEncoding its = copy.encoding;
    BlockEncoding mine = encoding;
    return copies.isEmpty() || (its == null ? mine == null : mine != null && isAlike(its, mine));
  }

  private static boolean isAlike(BlockEncoding one, BlockEncoding other) {
    return one.kind() == other.kind() && one.granuleElements() == other.granuleElements();
  }

  /**
   * Takes as much of a copy as there is room for.
   *
   * @return whether all of it was taken
   */
  boolean take(Copy copy) {
    copy.batches++;
    copies.add(copy);
    encoding = copy.encoding;
    int bytesMax = bytesMax(copy);
    boolean hasSpace = true;
    while (hasSpace && !copy.isAllTaken()) {
      hasSpace =
          switch (strategy) {
            case PLAIN, BATCH -> takeRun(copy, bytesMax);
            case STAGED, KERNEL -> takeEntry(copy, bytesMax);
            case ENCODED -> takeGranules(copy);
          };
    }
    return copy.isAllTaken();
  }

  /** Takes the rest of the next run, or a part of it, for the copy engine. */
  private boolean takeRun(Copy copy, int bytesMax) {
    Runs runs = copy.runs;
    int entry = copy.nextEntry;
    RunGrid grid = runs.grid(entry);
    int left =
        grid == null
            ? runs.bytes(entry) - copy.nextByte
            : grid.runBytes() - copy.nextByte % grid.runBytes();
    int length = whole(left, bytesMax - bytes);
    if (pieces == options.slotRuns() || length <= 0) {
      return false;
    }
    setPiece(
        pieces++,
        runs.deviceAddress(entry) + deviceOffset(grid, copy.nextByte),
        runs.hostAddress(entry) + hostOffset(grid, copy.nextByte),
        length);
    bytes += length;
    copiedBytes += length;
    copy.take(length);
    return true;
  }

  /** Takes the rest of the next entry, or a part of it, for the kernel. */
  private boolean takeEntry(Copy copy, int bytesMax) {
    Runs runs = copy.runs;
    int entry = copy.nextEntry;
    RunGrid grid = runs.grid(entry);
    if (table.isFull(grid)) {
      return false;
    }
    int from = copy.nextByte;
    int left = runs.bytes(entry) - from;
    int start = bytes;
    if (isStaged()) {
      start = goesOn(runs.hostAddress(entry) + hostOffset(grid, from)) ? bytes : align(bytes);
      left = (int) Math.min(left, stagedBytesMax(grid, from));
    }
    int length = whole(left, bytesMax - start);
    if (length <= 0) {
      return false;
    }
    if (isStaged()) {
      addPieces(runs.hostAddress(entry), grid, from, length, staging + start);
    }
    // In the staging memory, the runs lie side by side, from the first byte that is taken on.
    long other = isStaged() ? staging + start - from : runs.hostAddress(entry);
    table.add(grid, runs.deviceAddress(entry), other, from, length, 0);
    bytes = start + length;
    copiedBytes += length;
    copy.take(length);
    return true;
  }

  /** The part to take of what is left: what is cut keeps the alignment of wide accesses. */
  private static int whole(int left, int space) {
    return space < left ? space & -RunTable.PIECE_BYTES : left;
  }

  /** How many bytes of an entry may be staged, where each piece on the host is a copy by itself. */
  private long stagedBytesMax(@Nullable RunGrid grid, int from) {
    long copies = (long) options.slotRuns() - pieces;
    if (grid == null) {
      return copies > 0 ? Long.MAX_VALUE : 0;
    }
    int span = spanBytes(grid);
    long firstOfSpan = from % span;
    return Math.max(0, copies * span - firstOfSpan);
  }

  private void addPieces(long host, @Nullable RunGrid grid, int from, int length, long staged) {
    int span = grid == null ? Integer.MAX_VALUE : spanBytes(grid);
    for (int next = from; next < from + length; ) {
      int part = Math.min(span - next % span, from + length - next);
      addPiece(staged + (next - from), host + hostOffset(grid, next), part);
      next += part;
    }
  }

  /** Adds a piece, or makes the last one longer. */
  private void addPiece(long staged, long host, int length) {
    if (goesOn(host)) {
      lengths.setAtIndex(ValueLayout.JAVA_LONG, pieces - 1, word(lengths, pieces - 1) + length);
    } else {
      setPiece(pieces++, staged, host, length);
    }
    hostEnd = host + length;
  }

  /** Takes granules of the next entry for the kernels of encoded blocks: those of one piece. */
  private boolean takeGranules(Copy copy) {
    BlockEncoding how = copy.encoding;
    if (how == null) {
      throw new IllegalStateException("a copy of raw blocks among encoded ones");
    }
    Runs runs = copy.runs;
    int entry = copy.nextEntry;
    RunGrid grid = runs.grid(entry);
    if (table.isFull(grid)) {
      return false;
    }
    int from = copy.nextByte;
    long place = runs.hostAddress(entry) + hostOffset(grid, from);
    long host = copy.granuleAddress(how, place);
    int start = goesOn(host) ? bytes : align(bytes);
    int granules =
        Math.min(
            GranuleRuns.spanBytes(runs, entry, from) / how.rawGranuleBytes(),
            (options.slotBytes() - start) / how.encodedGranuleBytes());
    if (granules <= 0 || (pieces == options.slotRuns() && !goesOn(host))) {
      return false;
    }
    int length = granules * how.rawGranuleBytes();
    int encodedLength = granules * how.encodedGranuleBytes();
    addPiece(staging + start, host, encodedLength);
    int number = numberOf(copy, Copy.blockOf(place));
    table.add(grid, runs.deviceAddress(entry), staging + start, from, length, number);
    bytes = start + encodedLength;
    copiedBytes += length;
    copy.take(length);
    return true;
  }

  /** The number of a block's place among those of which the kernel can say something. */
  private int numberOf(Copy copy, int block) {
    int last = placeCopies.size() - 1;
    if (last >= 0 && placeCopies.get(last) == copy && placeBlocks[last] == block) {
      return last;
    }
    int number = placeCopies.size();
    if (number == placeBlocks.length) {
      placeBlocks = Arrays.copyOf(placeBlocks, 2 * number);
    }
    placeCopies.add(copy);
    placeBlocks[number] = block;
    return number;
  }

  /** Tells copies which of their blocks did not fit, or are damaged; for a batch that is done. */
  void tellFlaws() {
    for (int i = 0; i < placeCopies.size(); i++) {
      if (flaws.get(ValueLayout.JAVA_BYTE, i) != 0) {
        placeCopies.get(i).flaws |= 1L << placeBlocks[i];
      }
    }
  }

  private boolean goesOn(long host) {
    return pieces > 0 && hostEnd == host;
  }

  private static int spanBytes(RunGrid grid) {
    return grid.runsOfHostSpan() * grid.runBytes();
  }

  private static long deviceOffset(@Nullable RunGrid grid, int at) {
    return grid == null ? at : grid.deviceOffset(at / grid.runBytes()) + at % grid.runBytes();
  }

  private static long hostOffset(@Nullable RunGrid grid, int at) {
    return grid == null ? at : grid.hostOffset(at / grid.runBytes()) + at % grid.runBytes();
  }

  /** The most bytes of this batch, where that copy is its last. */
  private int bytesMax(Copy copy) {
    if (strategy == CopyStrategy.BATCH) {
      // Nothing is staged: a slot's size is no limit.
      return copy.meanRunBytes() < LONG_RUN_BYTES ? SHORT_RUNS_CALL_BYTES : BATCH_CALL_BYTES;
    }
    // Nothing is staged between siblings, and their link is some times as fast as the host's.
    return direction == CopyDirection.PEER ? PEER_BYTES : options.slotBytes();
  }

  private static int align(int offset) {
    return (offset + STAGING_ALIGNMENT_BYTES - 1) & -STAGING_ALIGNMENT_BYTES;
  }

  void launch(GpuStream kernels, GpuStream staged, GpuStream direct) {
    switch (strategy) {
      case KERNEL -> {
        int blocks =
            switch (direction) {
              case OFFLOAD -> options.writeBlocks();
              case ONBOARD -> options.readBlocks();
              // It is over in microseconds, as within the device.
              case PEER -> options.stagingBlocks();
            };
        copyTable(kernels, blocks);
        gpu.record(done, kernels);
      }
      case STAGED, ENCODED -> {
        if (direction == CopyDirection.PEER) {
          throw new IllegalStateException("copies between siblings are not staged");
        }
        if (direction == CopyDirection.OFFLOAD) {
          copyTable(kernels, stagingBlocks());
          gpu.record(halfway, kernels);
          gpu.await(staged, halfway);
          copyPieces(staged);
          gpu.record(done, staged);
        } else {
          copyPieces(staged);
          gpu.record(halfway, staged);
          gpu.await(kernels, halfway);
          copyTable(kernels, stagingBlocks());
          gpu.record(done, kernels);
        }
      }
      case BATCH -> {
        copyBatch(direct);
        gpu.record(done, direct);
      }
      case PLAIN -> {
        copyEach(direct);
        gpu.record(done, direct);
      }
    }
  }

  private int stagingBlocks() {
    return strategy == CopyStrategy.ENCODED ? options.encodingBlocks() : options.stagingBlocks();
  }

  /** The bytes of all its runs. */
  int copiedBytes() {
    return copiedBytes;
  }

  boolean isStaged() {
    return strategy == CopyStrategy.STAGED || strategy == CopyStrategy.ENCODED;
  }

  /** What the kernel of a staged batch did, seen from the host. */
  enum KernelState {
    /** Nothing that is news: it is not its turn, or its end was told before. */
    NOTHING_NEW,
    /** It has had no room, or not come to its end, for long. */
    LATE,
    /** It is done, and was not late. */
    DONE_IN_TIME
  }

  /** Looks at the kernel, some time after the last look. */
  KernelState watchKernel(long nowNs) {
    if (!isStaged() || kernelIsOver || table.count() == 0) {
      return KernelState.NOTHING_NEW;
    }
    boolean offload = direction == CopyDirection.OFFLOAD;
    if (!offload && !gpu.isDone(halfway)) {
      return KernelState.NOTHING_NEW;
    }
    if (gpu.isDone(offload ? halfway : done)) {
      kernelIsOver = true;
      return kernelIsLate ? KernelState.NOTHING_NEW : KernelState.DONE_IN_TIME;
    }
    if (!kernelIsDue) {
      kernelIsDue = true;
      kernelDueNs = nowNs;
    }
    kernelIsLate = nowNs - kernelDueNs > LATE_NS;
    return kernelIsLate ? KernelState.LATE : KernelState.NOTHING_NEW;
  }

  boolean isDone() {
    return gpu.isDone(done);
  }

  private void copyTable(GpuStream stream, int blocksMax) {
    if (table.count() == 0) {
      return;
    }
    BlockEncoding how = encoding;
    int pieceBytes = how == null ? RunTable.PIECE_BYTES : how.rawGranuleBytes();
    int pieceCount = table.pieces(pieceBytes);
    // No more than have something to do.
    int blocks = (int) Math.min(blocksMax, table.usefulBlocks(pieceBytes));
    if (how == null) {
      gpu.copyTable(stream, table.address(), table.forms(), table.count(), pieceCount, blocks);
      return;
    }
    GranuleTable granules =
        new GranuleTable(
            table.address(),
            table.forms(),
            table.count(),
            pieceCount,
            how.kind(),
            how.granuleElements(),
            flawsAddress);
    if (direction == CopyDirection.OFFLOAD) {
      gpu.encode(stream, granules, blocks);
    } else {
      gpu.decode(stream, granules, blocks);
    }
  }

  /** Copies between staging and host: one copy for all that lies side by side on the host. */
  private void copyPieces(GpuStream stream) {
    if (pieces > 1 && gpu.hasBatchCopies()) {
      // Without the pause that the copy engine makes between two calls.
      copyBatch(stream);
    } else {
      copyEach(stream);
    }
  }

  private void copyEach(GpuStream stream) {
    for (int i = 0; i < pieces; i++) {
      gpu.copy(stream, word(targets, i), word(sources, i), word(lengths, i));
    }
  }

  private void copyBatch(GpuStream stream) {
    if (pieces > 0) {
      gpu.copyBatch(stream, targets, sources, lengths, pieces);
    }
  }

  private void setPiece(int i, long device, long host, long length) {
    boolean offload = direction == CopyDirection.OFFLOAD;
    targets.setAtIndex(ValueLayout.JAVA_LONG, i, offload ? host : device);
    sources.setAtIndex(ValueLayout.JAVA_LONG, i, offload ? device : host);
    lengths.setAtIndex(ValueLayout.JAVA_LONG, i, length);
  }

  private static long word(MemorySegment words, int i) {
    return words.getAtIndex(ValueLayout.JAVA_LONG, i);
  }
}

package io.kvtier.tiers.gpu;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * What a lane gives to the GPU at once: runs of one copy or several, a slot of staging memory that
 * holds them all, and the tables that describe them. Its memory is used again when its last event
 * is done, not before.
 */
final class CopyBatch {
  /** Staged bytes that are not one piece with those before begin at a multiple of this. */
  private static final int STAGING_ALIGNMENT_BYTES = 256;

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
  private final MemorySegment table;
  private final long tableAddress;
  private final MemorySegment targets;
  private final MemorySegment sources;
  private final MemorySegment lengths;
  private final GpuEvent halfway;
  private final GpuEvent done;

  private final long[] deviceAddresses;
  private final long[] hostAddresses;
  private final int[] runLengths;
  private int runs;
  private int bytes;
  private int copiedBytes;
  private int longest;

  /** Whose runs are in this batch, or some of them. */
  final List<Copy> copies = new ArrayList<>();

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
    long tableBytes = (long) options.slotRuns() * RunTable.ENTRY_BYTES;
    long wordBytes = (long) options.slotRuns() * Long.BYTES;
    table = memory.asSlice(0, tableBytes);
    tableAddress = memoryAddress;
    targets = memory.asSlice(tableBytes, wordBytes);
    sources = memory.asSlice(tableBytes + wordBytes, wordBytes);
    lengths = memory.asSlice(tableBytes + 2 * wordBytes, wordBytes);
    halfway = resources.createEvent();
    done = resources.createEvent();
    deviceAddresses = new long[options.slotRuns()];
    hostAddresses = new long[options.slotRuns()];
    runLengths = new int[options.slotRuns()];
  }

  /** The host memory that a batch takes for its tables. */
  static long memoryBytes(CopyOptions options) {
    return (long) options.slotRuns() * (RunTable.ENTRY_BYTES + 3L * Long.BYTES);
  }

  /** Forgets what was in it, to be filled anew. */
  void begin(CopyStrategy launchedBy) {
    strategy = launchedBy;
    kernelIsDue = false;
    kernelIsLate = false;
    kernelIsOver = false;
    runs = 0;
    bytes = 0;
    copiedBytes = 0;
    longest = 0;
    copies.clear();
  }

  /**
   * Takes as much of a copy as there is room for.
   *
   * @return whether all of it was taken
   */
  boolean take(Copy copy) {
    copy.batches++;
    copies.add(copy);
    int bytesMax = bytesMax(copy);
    while (!copy.isAllTaken() && runs < options.slotRuns()) {
      int run = copy.nextRun;
      long host = copy.runs.hostAddress(run) + copy.nextByte;
      boolean goesOn = runs > 0 && hostAddresses[runs - 1] + runLengths[runs - 1] == host;
      int start = goesOn ? bytes : align(bytes);
      int left = copy.runs.bytes(run) - copy.nextByte;
      int length = Math.min(left, bytesMax - start);
      if (length < left) {
        // What is cut keeps the alignment that the kernel's wide accesses need.
        length &= -RunTable.PIECE_BYTES;
      }
      if (length <= 0) {
        return false;
      }
      deviceAddresses[runs] = copy.runs.deviceAddress(run) + copy.nextByte;
      hostAddresses[runs] = host;
      runLengths[runs] = length;
      runs++;
      bytes = start + length;
      copiedBytes += length;
      longest = Math.max(longest, length);
      copy.nextByte += length;
      if (length == left) {
        copy.nextRun++;
        copy.nextByte = 0;
      }
    }
    return copy.isAllTaken();
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
        fillTable();
        // Between siblings it is over in microseconds, as within the device.
        boolean isPeer = direction == CopyDirection.PEER;
        copyTable(kernels, isPeer ? options.stagingBlocks() : options.linkBlocks());
        gpu.record(done, kernels);
      }
      case STAGED -> {
        if (direction == CopyDirection.PEER) {
          throw new IllegalStateException("copies between siblings are not staged");
        }
        fillStagedTable();
        if (direction == CopyDirection.OFFLOAD) {
          copyTable(kernels, options.stagingBlocks());
          gpu.record(halfway, kernels);
          gpu.await(staged, halfway);
          copySpans(staged);
          gpu.record(done, staged);
        } else {
          copySpans(staged);
          gpu.record(halfway, staged);
          gpu.await(kernels, halfway);
          copyTable(kernels, options.stagingBlocks());
          gpu.record(done, kernels);
        }
      }
      case BATCH -> {
        for (int i = 0; i < runs; i++) {
          setWords(i, deviceAddresses[i], hostAddresses[i], runLengths[i]);
        }
        copyBatch(direct, runs);
        gpu.record(done, direct);
      }
      case PLAIN -> {
        for (int i = 0; i < runs; i++) {
          copy(direct, deviceAddresses[i], hostAddresses[i], runLengths[i]);
        }
        gpu.record(done, direct);
      }
    }
  }

  /** The bytes of all its runs. */
  int copiedBytes() {
    return copiedBytes;
  }

  boolean isStaged() {
    return strategy == CopyStrategy.STAGED;
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
    if (!isStaged() || kernelIsOver || runs == 0) {
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

  private void fillTable() {
    boolean offload = direction == CopyDirection.OFFLOAD;
    for (int i = 0; i < runs; i++) {
      long device = deviceAddresses[i];
      long host = hostAddresses[i];
      RunTable.write(table, i, offload ? device : host, offload ? host : device, runLengths[i]);
    }
  }

  private void fillStagedTable() {
    boolean offload = direction == CopyDirection.OFFLOAD;
    int at = 0;
    for (int i = 0; i < runs; i++) {
      at = i > 0 && goesOn(i) ? at : align(at);
      long device = deviceAddresses[i];
      long staged = staging + at;
      RunTable.write(table, i, offload ? device : staged, offload ? staged : device, runLengths[i]);
      at += runLengths[i];
    }
  }

  private boolean goesOn(int run) {
    return hostAddresses[run - 1] + runLengths[run - 1] == hostAddresses[run];
  }

  private void copyTable(GpuStream stream, int blocksMax) {
    if (runs > 0) {
      int pieces = RunTable.pieces(longest);
      // No more than have something to do.
      long useful = ((long) runs * pieces + RunTable.BLOCK_PIECES - 1) / RunTable.BLOCK_PIECES;
      int blocks = (int) Math.min(blocksMax, useful);
      gpu.copyTable(stream, tableAddress, runs, pieces, blocks);
    }
  }

  /** Copies between staging and host: one copy for all that lies side by side on the host. */
  private void copySpans(GpuStream stream) {
    int spans = 0;
    int from = 0;
    int to = 0;
    long host = 0;
    for (int i = 0; i < runs; i++) {
      if (i == 0 || !goesOn(i)) {
        if (i > 0) {
          setWords(spans++, staging + from, host, to - from);
        }
        host = hostAddresses[i];
        from = align(to);
        to = from;
      }
      to += runLengths[i];
    }
    if (runs > 0) {
      setWords(spans++, staging + from, host, to - from);
    }
    if (spans > 1 && gpu.hasBatchCopies()) {
      // Without the pause that the copy engine makes between two calls.
      copyBatch(stream, spans);
      return;
    }
    for (int i = 0; i < spans; i++) {
      gpu.copy(stream, word(targets, i), word(sources, i), word(lengths, i));
    }
  }

  private void copy(GpuStream stream, long device, long host, int length) {
    if (direction == CopyDirection.OFFLOAD) {
      gpu.copy(stream, host, device, length);
    } else {
      gpu.copy(stream, device, host, length);
    }
  }

  private void copyBatch(GpuStream stream, int count) {
    if (count > 0) {
      gpu.copyBatch(stream, targets, sources, lengths, count);
    }
  }

  private void setWords(int i, long device, long host, long length) {
    boolean offload = direction == CopyDirection.OFFLOAD;
    targets.setAtIndex(ValueLayout.JAVA_LONG, i, offload ? host : device);
    sources.setAtIndex(ValueLayout.JAVA_LONG, i, offload ? device : host);
    lengths.setAtIndex(ValueLayout.JAVA_LONG, i, length);
  }

  private static long word(MemorySegment words, int i) {
    return words.getAtIndex(ValueLayout.JAVA_LONG, i);
  }
}

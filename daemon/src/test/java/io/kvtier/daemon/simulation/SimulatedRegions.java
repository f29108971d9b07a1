package io.kvtier.daemon.simulation;

import io.kvtier.daemon.gpu.FileGpu;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.BitSet;

/**
 * The regions of a client on a simulated GPU, for one namespace: of two ranks that have a part of
 * the heads each, and of one that has all of them. A head is a granule, so that ranks encode their
 * heads apart.
 */
final class SimulatedRegions {
  /** The region that has all heads; the others are 0 and 1. */
  static final int WHOLE = 2;

  private static final int TARGETS = 24;
  private static final int HEAD_BYTES = SimulatedEncodings.GRANULE_BYTES;

  private final int heads;
  private final Path file;
  private final MemorySegment memory;
  private final BitSet used = new BitSet();

  /** The numbers of the regions; 0: not registered. */
  final int[] numbers = new int[WHOLE + 1];

  /**
   * Regions without a meaning.
   *
   * @param file to be made: the memory of the GPU
   */
  SimulatedRegions(Path file, int blockBytes, Arena arena) throws IOException {
    this.file = file;
    heads = blockBytes / HEAD_BYTES;
    try (FileChannel channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE_NEW,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      long bytes = 2L * TARGETS * blockBytes;
      memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
    }
  }

  /** Removes the file. The daemon may still have it open. */
  void remove() throws IOException {
    Files.delete(file);
  }

  /** The property of a namespace with such regions. */
  static String form(int blockBytes) {
    return "form=LCHND:1x1:1x" + blockBytes / HEAD_BYTES + "x" + HEAD_BYTES;
  }

  /** Whether a region exists: a block of one head has no halves. */
  boolean has(int which) {
    return which == WHOLE || heads > 1;
  }

  /** The first byte of a block's second half; the length of the block if it has one head. */
  static int secondHalf(int blockBytes) {
    return (blockBytes / HEAD_BYTES + 1) / 2 * HEAD_BYTES;
  }

  private int fromHead(int which) {
    return which == 1 ? (heads + 1) / 2 : 0;
  }

  private int toHead(int which) {
    return which == 0 ? (heads + 1) / 2 : heads;
  }

  /** The first byte of a region's part of a block. */
  int from(int which) {
    return fromHead(which) * HEAD_BYTES;
  }

  /** The byte after a region's part of a block. */
  int to(int which) {
    return toHead(which) * HEAD_BYTES;
  }

  /** Where a region begins in the file: both halves together are as long as the whole. */
  private long offset(int which) {
    return (long) TARGETS * (which == WHOLE ? heads * HEAD_BYTES : from(which));
  }

  /** The text that registers a region. */
  String text(int which) {
    int own = toHead(which) - fromHead(which);
    int elements = HEAD_BYTES / 2;
    return String.join(
        "\n",
        "device=" + FileGpu.UUID,
        "order=LCHND",
        "layers=1",
        "blocks=" + TARGETS,
        "block_tokens=1",
        "part=kv:BHD:%d,%d,%d:%d,%d,1:2:%d:%d"
            .formatted(TARGETS, own, elements, own * elements, elements, heads, fromHead(which)),
        "allocation=" + FileGpu.handle(file),
        "tensor=0+" + offset(which));
  }

  /** Takes a block of the regions, or returns -1 when all are in use. */
  int take() {
    int target = used.nextClearBit(0);
    if (target >= TARGETS) {
      return -1;
    }
    used.set(target);
    return target;
  }

  void giveBack(int target) {
    used.clear(target);
  }

  private MemorySegment at(int which, int target) {
    int bytes = to(which) - from(which);
    return memory.asSlice(offset(which) + (long) target * bytes, bytes);
  }

  /** Writes a region's part of a block. */
  void write(int which, int target, byte[] block) {
    MemorySegment whole = MemorySegment.ofArray(block);
    at(which, target).copyFrom(whole.asSlice(from(which), to(which) - from(which)));
  }

  /** Whether a region has its part of a block. */
  boolean has(int which, int target, byte[] block) {
    MemorySegment whole = MemorySegment.ofArray(block);
    MemorySegment part = whole.asSlice(from(which), to(which) - from(which));
    return at(which, target).mismatch(part) == -1;
  }
}

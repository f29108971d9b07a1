package io.kvtier.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Blocks in memory of the program that measures, and the order in which batches touch those on the
 * other side: random, so that no cache is warm for one and cold for another.
 */
final class WorkingSet {
  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final long SEED = 7;

  private final int blockBytes;
  private final int blocks;
  private final int batch;
  private final MemorySegment memory;
  private final List<List<MemorySegment>> batches = new ArrayList<>();
  private final int[] order;

  /**
   * Takes and touches the memory.
   *
   * @param blocks a multiple of {@code batch}
   */
  WorkingSet(int blockBytes, int blocks, int batch, Arena arena) {
    if (blocks % batch != 0) {
      throw new IllegalArgumentException(blocks + " blocks are no batches of " + batch);
    }
    this.blockBytes = blockBytes;
    this.blocks = blocks;
    this.batch = batch;
    memory = arena.allocate((long) blockBytes * blocks, 4096);
    memory.fill((byte) 0x5a);
    for (int from = 0; from < blocks; from += batch) {
      List<MemorySegment> views = new ArrayList<>(batch);
      for (int i = from; i < from + batch; i++) {
        views.add(memory.asSlice((long) i * blockBytes, blockBytes));
      }
      batches.add(List.copyOf(views));
    }
    order = new int[blocks];
    SplittableRandom random = new SplittableRandom(SEED);
    for (int i = 0; i < blocks; i++) {
      int j = random.nextInt(i + 1);
      order[i] = order[j];
      order[j] = i;
    }
  }

  int blockBytes() {
    return blockBytes;
  }

  int blocks() {
    return blocks;
  }

  int batch() {
    return batch;
  }

  long batchBytes() {
    return (long) batch * blockBytes;
  }

  int batches() {
    return batches.size();
  }

  /** The memory of a batch's blocks, contiguous. */
  List<MemorySegment> batch(int index) {
    return batches.get(index);
  }

  /** Which block of the other side stands at this place of a batch. */
  int number(int batchIndex, int place) {
    return order[batchIndex * batch + place];
  }

  /** Marks a batch's blocks with the numbers that they stand for. */
  void mark(int batchIndex) {
    for (int i = 0; i < batch; i++) {
      MemorySegment block = batches.get(batchIndex).get(i);
      block.set(LONG, 0, number(batchIndex, i));
      block.set(LONG, blockBytes - 8L, number(batchIndex, i));
    }
  }

  /**
   * Takes the numbers out of a batch's blocks, and touches no more of them: what is in the caches
   * when they are copied stays as it is for bare copies.
   */
  void unmark(int batchIndex) {
    for (MemorySegment block : batches.get(batchIndex)) {
      block.set(LONG, 0, -1);
      block.set(LONG, blockBytes - 8L, -1);
    }
  }

  /** Fails when a batch's memory holds other blocks than it should. */
  void check(int batchIndex) {
    for (int i = 0; i < batch; i++) {
      MemorySegment block = batches.get(batchIndex).get(i);
      int expected = number(batchIndex, i);
      if (block.get(LONG, 0) != expected || block.get(LONG, blockBytes - 8L) != expected) {
        throw new IllegalStateException(
            "block " + expected + " came with the bytes of block " + block.get(LONG, 0));
      }
    }
  }
}

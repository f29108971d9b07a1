package io.kvtier.tiers.gpu;

/**
 * The limits of a {@link CopyEngine}. Its device memory is two times the slots.
 *
 * @param slots how many batches a direction has in flight, each with a slot of staging memory
 * @param slotBytes the most bytes of a batch
 * @param slotRuns the most runs of a batch
 * @param threadBlocks of the copy kernel, each of which takes a multiprocessor for a while
 * @param depth the most copies that wait or are in flight, in each direction
 */
public record CopyOptions(int slots, int slotBytes, int slotRuns, int threadBlocks, int depth) {
  /** What suits one GPU behind one link. */
  public static final CopyOptions DEFAULT = new CopyOptions(4, 4 << 20, 8192, 16, 1024);

  private static final int SLOT_ALIGNMENT_BYTES = 4096;

  public CopyOptions {
    if (slots < 2) {
      throw new IllegalArgumentException(
          slots + " slots: expected 2 or more, one to fill while another is under way");
    }
    if (slotBytes < SLOT_ALIGNMENT_BYTES || slotBytes % SLOT_ALIGNMENT_BYTES != 0) {
      throw new IllegalArgumentException(
          "slots of " + slotBytes + " bytes: expected a multiple of " + SLOT_ALIGNMENT_BYTES);
    }
    if (slotRuns < 1 || threadBlocks < 1 || depth < 1) {
      throw new IllegalArgumentException(
          slotRuns
              + " runs, "
              + threadBlocks
              + " thread blocks, depth "
              + depth
              + ": expected 1 or more of each");
    }
  }

  /** The same with another number of thread blocks. */
  public CopyOptions withThreadBlocks(int other) {
    return new CopyOptions(slots, slotBytes, slotRuns, other, depth);
  }

  /** The device memory that an engine takes. */
  public long stagingBytes() {
    return 2L * slots * slotBytes;
  }
}

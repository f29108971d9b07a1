package io.kvtier.tiers.gpu;

/**
 * The limits of a {@link CopyEngine}.
 *
 * @param slots how many batches are in flight, each with a slot of staging memory on the device
 * @param slotBytes the most bytes of a batch
 * @param slotRuns the most runs of a batch
 * @param stagingBlocks thread blocks of the kernel where it copies within the device: many, so that
 *     it is done before the engine's next kernel misses their multiprocessors
 * @param encodingBlocks thread blocks of the kernels that encode and decode: many, so that each
 *     batch is short, because the GPU stops a busy engine for the time of a batch
 * @param writeBlocks thread blocks of the kernel where it writes host memory: few, since it holds
 *     their multiprocessors as long as the link needs
 * @param readBlocks thread blocks of the kernel where it reads host memory: fewer, since reads are
 *     no faster with more
 * @param depth the most copies that wait or are in flight
 */
public record CopyOptions(
    int slots,
    int slotBytes,
    int slotRuns,
    int stagingBlocks,
    int encodingBlocks,
    int writeBlocks,
    int readBlocks,
    int depth) {
  /** What suits one GPU behind one link. */
  public static final CopyOptions DEFAULT =
      new CopyOptions(4, 16 << 20, 16_384, 64, 264, 16, 8, 1024);

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
    requirePositive(slotRuns, "runs of a slot");
    requirePositive(stagingBlocks, "thread blocks");
    requirePositive(encodingBlocks, "thread blocks");
    requirePositive(writeBlocks, "thread blocks");
    requirePositive(readBlocks, "thread blocks");
    requirePositive(depth, "copies in flight");
  }

  private static void requirePositive(int value, String what) {
    if (value < 1) {
      throw new IllegalArgumentException(value + " " + what + ": expected 1 or more");
    }
  }

  /** The device memory that an engine takes. */
  public long stagingBytes() {
    return (long) slots * slotBytes;
  }
}

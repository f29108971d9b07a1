package io.kvtier.tiers.gpu;

import io.kvtier.layout.Runs;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import org.jspecify.annotations.Nullable;

/**
 * One copy between device and host: a block, or some layers and heads of it. Filled by who submits
 * it, and that one's again when it is finished.
 */
public final class Copy {
  /**
   * What to copy. Where blocks are encoded, the host addresses of the runs are those of {@link
   * #placeOf}.
   */
  public final Runs runs = new Runs();

  /** How the blocks are encoded on the host; null: they are raw. */
  public @Nullable BlockEncoding encoding;

  /** Where the device sees the slots of encoded blocks. */
  final long[] slots = new long[DeviceTransfer.BLOCKS_MAX];

  /**
   * A bit for each encoded block: some granule of it does not fit, or is damaged. What was copied
   * of such a block has no meaning.
   */
  long flaws;

  /** Nothing is copied before this event is done; null: at once. */
  public @Nullable GpuEvent after;

  /** The submitter's own: which transfer this is. */
  public long tag;

  /** While it waits for its event, it is handed back undone. Set by any thread. */
  public volatile boolean isGivenUp;

  /** The outcome: OK, IO_ERROR, or CANCELLED. */
  public Status status = Status.OK;

  // Where the lane has come to.
  int nextEntry;
  int nextByte;

  /** In how many batches of the GPU's it is. */
  int batches;

  /** What stands for the host address of a byte of a raw block, when the block is encoded. */
  static long placeOf(int block) {
    return (long) block << Integer.SIZE;
  }

  /** The number of the block of a place. */
  static int blockOf(long place) {
    return (int) (place >>> Integer.SIZE);
  }

  /** Where the granule of a place is on the host. */
  long granuleAddress(BlockEncoding how, long place) {
    int granule = (int) place / how.rawGranuleBytes();
    return slots[blockOf(place)] + (long) granule * how.encodedGranuleBytes();
  }

  void begin() {
    status = Status.OK;
    flaws = 0;
    nextEntry = 0;
    nextByte = 0;
    batches = 0;
  }

  boolean isAllTaken() {
    return nextEntry == runs.entries();
  }

  /** Goes on behind the next bytes, which are at most the rest of an entry. */
  void take(int bytes) {
    nextByte += bytes;
    if (nextByte == runs.bytes(nextEntry)) {
      nextEntry++;
      nextByte = 0;
    }
  }

  int meanRunBytes() {
    return runs.count() == 0 ? 0 : (int) (runs.totalBytes() / runs.count());
  }

  /** The mean of the pieces on the host: a staged copy crosses the link piece by piece. */
  int meanSpanBytes() {
    int spans = runs.hostSpans();
    return spans == 0 ? 0 : (int) Math.min(Integer.MAX_VALUE, runs.totalBytes() / spans);
  }
}

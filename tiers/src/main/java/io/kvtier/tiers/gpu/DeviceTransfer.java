package io.kvtier.tiers.gpu;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import org.jspecify.annotations.Nullable;

/**
 * Some layers of some blocks on their way between a region and slots of the host tier, or from
 * another region. Pooled by the index: filled there, carried out by a {@link DevicePipeline}, read
 * there again; the queues between hand it over, so its fields need no ordering of their own.
 */
public final class DeviceTransfer {
  /** The most blocks of one. */
  public static final int BLOCKS_MAX = 64;

  /** The transfer's place in the index's pool. */
  public final int poolIndex;

  public CopyDirection direction = CopyDirection.OFFLOAD;
  public @Nullable DeviceRegion region;

  /** What is copied from, to the region; null: slots of the host tier. */
  public @Nullable DeviceRegion source;

  public IndexRange layers = IndexRange.all(0);

  /** How the blocks are encoded in their slots; null: they are raw. */
  public @Nullable BlockEncoding encoding;

  /** Which event of the region it waits for, counted from 1; 0: none. */
  public int event;

  /** How many blocks. */
  public int count;

  /** The blocks' numbers in the region. */
  public final int[] targets = new int[BLOCKS_MAX];

  /** Their numbers in the region that is copied from. */
  public final int[] sources = new int[BLOCKS_MAX];

  /** Where their slots are. */
  public final int[] slabs = new int[BLOCKS_MAX];

  public final long[] offsets = new long[BLOCKS_MAX];

  /** The index's own: what it does this for, and the places of the blocks there. */
  public int operation;

  public final int[] places = new int[BLOCKS_MAX];

  /** The outcome: OK, IO_ERROR, or CANCELLED. */
  public Status status = Status.OK;

  /**
   * A bit for each encoded block that did not fit, or is damaged. What was copied of it has no
   * meaning.
   */
  public long flaws;

  /** What the lane makes of it. */
  final Copy copy = new Copy();

  /** Nothing to do yet. */
  public DeviceTransfer(int poolIndex) {
    this.poolIndex = poolIndex;
    copy.tag = poolIndex;
  }

  /** Makes ready to be filled and offered. */
  public void begin() {
    count = 0;
    status = Status.OK;
    flaws = 0;
    copy.isGivenUp = false;
  }

  /** Nobody wants it any more: it comes back at once if it waits for its event. */
  public void giveUp() {
    copy.isGivenUp = true;
  }
}

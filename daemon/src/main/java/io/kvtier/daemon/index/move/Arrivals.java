package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;

/** How a block becomes resident in the host tier, wherever it came from. Confined to the index. */
final class Arrivals {
  private final Directory directory;
  private final Copies copies;
  private final TierLine host;
  private final Ingestion toSsd;
  private final Ingestion toObjects;
  private final Counters counters;
  private final BlockListener listener;

  /**
   * Tells the tiers below of blocks that arrive.
   *
   * @param toSsd decides which blocks are copied to SSD
   * @param toObjects decides which blocks are copied to the object tier
   */
  Arrivals(
      Directory directory,
      Copies copies,
      TierLine host,
      Ingestion toSsd,
      Ingestion toObjects,
      Counters counters,
      BlockListener listener) {
    this.directory = directory;
    this.copies = copies;
    this.host = host;
    this.toSsd = toSsd;
    this.toObjects = toObjects;
    this.counters = counters;
    this.listener = listener;
  }

  /** A block is in its host slot, and verified. */
  void becomeResident(int block) {
    int length = copies.blockBytes(block);
    host.becomeResident(block);
    directory.clearHits(block);
    toSsd.inserted(block);
    // Also a block that is said to be an object: an accepted block must not be lost because that
    // is wrong.
    toObjects.inserted(block);
    counters.add(Counter.HOST_WRITTEN_BYTES, length);
    listener.onHostSettled(block, Status.OK);
  }

  /** A resident block was used, so often since it became resident. */
  void used(int block, int hits) {
    toSsd.used(block, hits);
    toObjects.used(block, hits);
  }
}

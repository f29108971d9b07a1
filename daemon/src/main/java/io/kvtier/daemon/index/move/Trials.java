package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.lane.Lane;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.space.ResidentTier;

/**
 * Shows whether a device that was fenced works again: writes one block there, which nobody waits
 * for, whenever the fence allows a trial. So a device recovers by itself, also where it was given
 * up or nothing has to leave memory. Confined to the index.
 */
final class Trials {
  private static final int LOOKS_MAX = 64;

  private final Directory directory;
  private final ResidentTier first;
  private final Ingestion.Target target;
  private final Lanes lanes;
  private int cursor;

  /**
   * Nothing is tried yet.
   *
   * @param target the tier of the devices
   */
  Trials(Directory directory, ResidentTier first, Ingestion.Target target, Lanes lanes) {
    this.directory = directory;
    this.first = first;
    this.target = target;
    this.lanes = lanes;
  }

  /** Begins the trials that are due, as far as there is a block for them. */
  void advance() {
    for (int i = 0; i < lanes.count(); i++) {
      Lane lane = lanes.at(i);
      if (lane.isToTry()) {
        lanes.onlyOn(lane, this::tryOne);
      }
    }
  }

  private boolean tryOne() {
    for (int i = 0; i < LOOKS_MAX; i++) {
      int block = cursor;
      cursor = cursor + 1 >= directory.highWater() ? 0 : cursor + 1;
      if (block < directory.highWater()
          && directory.isUsed(block)
          && first.isResident(block)
          && directory.uses(block) == 0
          && target.lacks(block)) {
        return target.start(block);
      }
    }
    return false;
  }
}

package io.kvtier.daemon.index;

import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.util.function.Consumer;

/**
 * The devices of the SSD tier, each a {@link SsdLane}: which one a block lies on, and what they are
 * all together. Slots are taken only from those that a store could be handed to now. Confined to
 * the index.
 */
final class SsdLanes {
  private final SlotAllocator slots;
  private final Directory directory;
  private final SsdLane[] lanes;

  /**
   * Idle devices.
   *
   * @param settle takes finished loads and stores
   */
  SsdLanes(IndexAgent.Context context, IndexAgent.Limits limits, Consumer<Transfer> settle) {
    slots = context.ssdSlots();
    directory = context.directory();
    // All numbers of slots are one more than an int counts to.
    int slotsMax = (int) Math.min(Integer.MAX_VALUE, slots.slotsMax());
    lanes = new SsdLane[context.ssdPipelines().size()];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] =
          new SsdLane(
              i,
              context.ssdPipelines().get(i),
              context.tenants(),
              limits.ssdDepth(),
              slotsMax,
              settle);
    }
    slots.openLanes(lane -> lanes[lane].canStore());
  }

  int count() {
    return lanes.length;
  }

  SsdLane at(int lane) {
    return lanes[lane];
  }

  /** The device of a block that has a slot on SSD. */
  SsdLane of(int block) {
    return lanes[slots.laneOf(region(block))];
  }

  private int region(int block) {
    return slots.regionOf(directory.slot(TierLine.SSD, block));
  }

  /** Which of its device's regions a block's slot lies in. */
  int regionOnDevice(int block) {
    return region(block) / lanes.length;
  }

  /** The row of a block must go, before anything else is stored in its slot. */
  void forgetRow(int block) {
    long offset = slots.offsetOf(directory.slot(TierLine.SSD, block));
    of(block).forget(Transfer.place(regionOnDevice(block), offset));
  }

  /** Hands the rows that are to go over, on all devices. */
  void forgetRows() {
    for (SsdLane lane : lanes) {
      lane.forgetRows();
    }
  }

  /** Settles what is finished; returns how many transfers that were. */
  int collect() {
    int count = 0;
    for (SsdLane lane : lanes) {
      count += lane.collect();
    }
    return count;
  }

  boolean hasFinished() {
    for (SsdLane lane : lanes) {
      if (lane.hasFinished()) {
        return true;
      }
    }
    return false;
  }

  /** Opens the fences whose time is over. */
  void checkFences(long nowNs) {
    for (SsdLane lane : lanes) {
      lane.fence().check(nowNs);
    }
  }

  /** Whether any device's fence is open. */
  boolean isAnyOpen() {
    for (SsdLane lane : lanes) {
      if (lane.fence().isOpen()) {
        return true;
      }
    }
    return false;
  }

  /** Whether every device counts as gone. */
  boolean isAllGivenUp() {
    for (SsdLane lane : lanes) {
      if (!lane.fence().isGivenUp()) {
        return false;
      }
    }
    return true;
  }

  /** Whether a store of a tenant's could be handed over now, on some device. */
  boolean canStore(int tenant) {
    for (SsdLane lane : lanes) {
      if (lane.canStore(tenant)) {
        return true;
      }
    }
    return false;
  }

  /** Loads and stores under way. */
  int inFlight() {
    int count = 0;
    for (SsdLane lane : lanes) {
      count += lane.inFlight();
    }
    return count;
  }

  /** Whether all rows that were to go have gone. */
  boolean isForgotten() {
    for (SsdLane lane : lanes) {
      if (!lane.isForgotten()) {
        return false;
      }
    }
    return true;
  }

  /** Whether anything is under way, after which the tier may take more. */
  boolean isBusy() {
    return inFlight() > 0 || !isForgotten();
  }

  @Override
  public String toString() {
    StringBuilder out = new StringBuilder();
    for (SsdLane lane : lanes) {
      out.append("; device ").append(lane.number()).append(": ").append(lane);
    }
    return out.toString();
  }
}

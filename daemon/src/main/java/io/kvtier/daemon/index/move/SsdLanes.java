package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.space.TierLine;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * The devices of the SSD tier, each a {@link SsdLane}: which one a block lies on, and what they are
 * all together. Slots are taken only from those that a store could be handed to now. Confined to
 * the index.
 */
public final class SsdLanes {
  private final SlotAllocator slots;
  private final Directory directory;
  private final SsdLane[] lanes;

  /**
   * The only device from which slots are taken now; negative: slots are taken from every device.
   */
  private int onlyLane = -1;

  /**
   * Idle devices.
   *
   * @param depth the most loads and stores in flight on each device
   * @param settle takes finished loads and stores
   */
  SsdLanes(StoreParts parts, Tenants tenants, int depth, Consumer<Transfer> settle) {
    slots = parts.ssd().slots();
    directory = parts.directory();
    // All numbers of slots are one more than an int counts to.
    int slotsMax = (int) Math.min(Integer.MAX_VALUE, slots.slotsMax());
    lanes = new SsdLane[parts.ssd().pipelines().size()];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] =
          new SsdLane(
              i, parts.ssd().pipelines().get(i), tenants, depth, slotsMax, parts.clock(), settle);
    }
    slots.openLanes(lane -> (onlyLane < 0 || lane == onlyLane) && lanes[lane].canStore());
  }

  /** Has slots taken from one device only, while something runs. */
  boolean onlyOn(SsdLane lane, BooleanSupplier work) {
    onlyLane = lane.number();
    boolean done = work.getAsBoolean();
    onlyLane = -1;
    return done;
  }

  public int count() {
    return lanes.length;
  }

  public SsdLane at(int lane) {
    return lanes[lane];
  }

  /** The device of a block that has a slot on SSD. */
  SsdLane of(int block) {
    return lanes[slots.laneOf(region(block))];
  }

  private int region(int block) {
    return slots.regionOf(directory.copies().slot(TierLine.SSD, block));
  }

  /** Which of its device's regions a block's slot lies in. */
  int regionOnDevice(int block) {
    return region(block) / lanes.length;
  }

  /** The row of a block must go, before anything else is stored in its slot. */
  void forgetRow(int block) {
    long offset = slots.offsetOf(directory.copies().slot(TierLine.SSD, block));
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
      lane.checkFences(nowNs);
    }
  }

  /** Whether any device works, as far as is known. */
  boolean isAnyWell() {
    for (SsdLane lane : lanes) {
      if (lane.isWell()) {
        return true;
      }
    }
    return false;
  }

  /** Whether every device counts as gone. */
  boolean isAllGivenUp() {
    for (SsdLane lane : lanes) {
      if (!lane.isGivenUp()) {
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

  /** Whether rows are to go that can go: those of a fenced device wait until it works again. */
  boolean isForgetting() {
    for (SsdLane lane : lanes) {
      if (lane.isForgetting()) {
        return true;
      }
    }
    return false;
  }

  /** Whether anything is under way, after which the tier may take more. */
  boolean isBusy() {
    for (SsdLane lane : lanes) {
      if (lane.isBusy()) {
        return true;
      }
    }
    return false;
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

package io.kvtier.daemon.index.lane;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * The devices of a lower tier, each a {@link Lane}: which one a block lies on, and what they are
 * all together. Slots are taken only from those that a store could be handed to now. Confined to
 * the index.
 */
public final class Lanes {
  private final int tier;
  private final SlotAllocator slots;
  private final CopyTable copies;
  private final Lane[] lanes;

  /**
   * The only device from which slots are taken now; negative: slots are taken from every device.
   */
  private int onlyLane = -1;

  /**
   * Idle devices.
   *
   * @param tier the number of the tier
   * @param pipelines one for each device
   * @param depth the most loads and stores in flight on each device
   */
  public Lanes(
      int tier,
      SlotAllocator slots,
      CopyTable copies,
      List<Pipeline> pipelines,
      Tenants tenants,
      int depth,
      LongSupplier clock) {
    this.tier = tier;
    this.slots = slots;
    this.copies = copies;
    // All numbers of slots are one more than an int counts to.
    int slotsMax = (int) Math.min(Integer.MAX_VALUE, slots.slotsMax());
    lanes = new Lane[pipelines.size()];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new Lane(i, pipelines.get(i), tenants, depth, slotsMax, clock);
    }
    slots.openLanes(lane -> (onlyLane < 0 || lane == onlyLane) && lanes[lane].canStore());
  }

  /** Has slots taken from one device only, while something runs. */
  public boolean onlyOn(Lane lane, BooleanSupplier work) {
    onlyLane = lane.number();
    boolean done = work.getAsBoolean();
    onlyLane = -1;
    return done;
  }

  public int count() {
    return lanes.length;
  }

  public Lane at(int lane) {
    return lanes[lane];
  }

  /** The device of a block that has a slot in the tier. */
  public Lane of(int block) {
    return lanes[slots.laneOf(region(block))];
  }

  private int region(int block) {
    return slots.regionOf(copies.slot(tier, block));
  }

  /** Which of its device's regions a block's slot lies in. */
  public int regionOnDevice(int block) {
    return region(block) / lanes.length;
  }

  /** The row of a block must go, before anything else is stored in its slot. */
  public void forgetRow(int block) {
    long offset = slots.offsetOf(copies.slot(tier, block));
    of(block).forget(Transfer.place(regionOnDevice(block), offset));
  }

  /** Hands the rows that are to go over, on all devices. */
  public void forgetRows() {
    for (Lane lane : lanes) {
      lane.forgetRows();
    }
  }

  /** Hands over loads and stores that are finished; returns how many transfers were. */
  public int collect(Consumer<Transfer> finished) {
    int count = 0;
    for (Lane lane : lanes) {
      count += lane.collect(finished);
    }
    return count;
  }

  public boolean hasFinished() {
    for (Lane lane : lanes) {
      if (lane.hasFinished()) {
        return true;
      }
    }
    return false;
  }

  /** Opens the fences whose time is over. */
  public void checkFences(long nowNs) {
    for (Lane lane : lanes) {
      lane.checkFences(nowNs);
    }
  }

  /** Whether any device works, as far as is known. */
  public boolean isAnyWell() {
    for (Lane lane : lanes) {
      if (lane.isWell()) {
        return true;
      }
    }
    return false;
  }

  /** Whether every device counts as gone. */
  public boolean isAllGivenUp() {
    for (Lane lane : lanes) {
      if (!lane.isGivenUp()) {
        return false;
      }
    }
    return true;
  }

  /** Whether a store of a tenant's could be handed over now, on some device. */
  public boolean canStore(int tenant) {
    for (Lane lane : lanes) {
      if (lane.canStore(tenant)) {
        return true;
      }
    }
    return false;
  }

  /** Loads and stores under way. */
  public int inFlight() {
    int count = 0;
    for (Lane lane : lanes) {
      count += lane.inFlight();
    }
    return count;
  }

  /** Whether rows are to go that can go: those of a fenced device wait until it works again. */
  public boolean isForgetting() {
    for (Lane lane : lanes) {
      if (lane.isForgetting()) {
        return true;
      }
    }
    return false;
  }

  /** Whether anything is under way, after which the tier may take more. */
  public boolean isBusy() {
    for (Lane lane : lanes) {
      if (lane.isBusy()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public String toString() {
    StringBuilder out = new StringBuilder();
    for (Lane lane : lanes) {
      out.append("; device ").append(lane.number()).append(": ").append(lane);
    }
    return out.toString();
  }
}

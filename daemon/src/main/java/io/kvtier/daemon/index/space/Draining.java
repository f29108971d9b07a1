package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.IntConsumer;

/** Regions that are emptied so that they can take blocks of another size. Confined to the index. */
final class Draining {
  private final int number;
  private final Directory directory;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final Evictables evictables;
  private final boolean[] mayGoOn;

  Draining(int number, Directory directory, SlotAllocator slots, Evictables evictables) {
    this.number = number;
    this.directory = directory;
    copies = directory.copies();
    this.slots = slots;
    this.evictables = evictables;
    mayGoOn = new boolean[slots.parts()];
  }

  /** Notes a change of a block: if the block lies in a region that drains, draining may go on. */
  void changed(int block) {
    if (slots.isDraining()) {
      int slot = copies.slot(number, block);
      int part = slot == CopyTable.NO_SLOT ? 0 : slots.partOf(slots.regionOf(slot));
      mayGoOn[part] |= slot != CopyTable.NO_SLOT && slots.regionOf(slot) == slots.draining(part);
    }
  }

  /** Begins to empty the region of a block, or a better region, for another size class. */
  void begin(int block, int soughtClass) {
    int region = slots.regionOf(copies.slot(number, block));
    int part = slots.partOf(region);
    // A region in which a client holds or retains a block would not be empty for long. Another
    // region is chosen if
    // emptying it costs far fewer bytes.
    boolean mayGo = !hasHeld(region);
    long least = mayGo ? bytesUsedOf(region) / 2 : Long.MAX_VALUE;
    int chosen = mayGo ? region : SlotAllocator.NONE;
    for (int i = 0; i < slots.regions(); i++) {
      int sizeClass = slots.classOfRegion(i);
      if (sizeClass != SlotAllocator.NONE
          && slots.partOf(i) == part
          && sizeClass != soughtClass
          && slots.isOpen(i)
          && bytesUsedOf(i) < least
          && !hasHeld(i)) {
        chosen = i;
        least = bytesUsedOf(i);
      }
    }
    if (chosen != SlotAllocator.NONE) {
      slots.drain(chosen);
      mayGoOn[part] = true;
    }
  }

  private long bytesUsedOf(int region) {
    return (long) slots.usedOf(region) * slots.slotBytes(slots.classOfRegion(region));
  }

  private boolean hasHeld(int region) {
    int count = slots.slotsOf(region);
    for (int i = 0; i < count; i++) {
      int block = slots.blockAt(region, i);
      if (block != SlotAllocator.NONE
          && (directory.holds(block) > 0 || evictables.isRetainedHere(block))) {
        return true;
      }
    }
    return false;
  }

  /**
   * Empties the regions that drain as far as possible, and gives up those in which clients hold
   * blocks.
   */
  void drain(IntConsumer evict) {
    for (int part = 0; part < mayGoOn.length; part++) {
      var _ = drain(part, evict);
    }
  }

  /**
   * Empties the region of one part that drains, as far as possible.
   *
   * @return whether the region is empty now: it takes blocks of any size, and no block must leave
   */
  boolean drain(int part, IntConsumer evict) {
    return mayGoOn[part]
        && slots.draining(part) != SlotAllocator.NONE
        && emptyDraining(part, evict);
  }

  private boolean emptyDraining(int part, IntConsumer evict) {
    int region = slots.draining(part);
    mayGoOn[part] = false;
    boolean isMoving = false;
    int count = slots.slotsOf(region);
    for (int i = 0; i < count && slots.draining(part) == region; i++) {
      int block = slots.blockAt(region, i);
      if (block == SlotAllocator.NONE) {
        continue;
      }
      if (evictables.has(block)) {
        evict.accept(block);
      }
      isMoving |= slots.blockAt(region, i) != block || directory.uses(block) > 0;
      mayGoOn[part] |= slots.blockAt(region, i) == block && evictables.has(block);
    }
    if (slots.draining(part) == region && !isMoving && !mayGoOn[part]) {
      slots.undrain(part);
    }
    return slots.classOfRegion(region) == SlotAllocator.NONE;
  }
}

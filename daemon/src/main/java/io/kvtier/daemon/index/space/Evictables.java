package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Arrays;

/**
 * The copies that could leave a tier now, and their counts. Such a copy is resident and not in use.
 * Confined to the index.
 */
final class Evictables {
  private final int number;
  private final Directory directory;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final Aside aside;
  private final int[] ofClass;
  private final int[] ofPart;

  /** Evictable copies that are in no other tier, by part. */
  private final int[] onlyHereOfPart;

  /** How often the count of {@link #onlyHereOfPart} rose from 0, by part. */
  private final int[] firstsOfPart;

  Evictables(int number, Directory directory, SlotAllocator slots, Aside aside) {
    this.number = number;
    this.directory = directory;
    copies = directory.copies();
    this.slots = slots;
    this.aside = aside;
    ofClass = new int[slots.classesMax()];
    ofPart = new int[slots.parts()];
    onlyHereOfPart = new int[slots.parts()];
    firstsOfPart = new int[slots.parts()];
  }

  /** Whether a copy could leave. */
  boolean has(int block) {
    return copies.isResident(number, block)
        && !aside.has(block)
        && directory.uses(block) == 0
        && (directory.holds(block) == 0 || (number > 0 && copies.isResident(0, block)))
        && !isRetainedHere(block);
  }

  /** Whether a block is retained, and no other tier has a resident copy of it. */
  boolean isRetainedHere(int block) {
    return directory.has(Directory.FLAG_RETAINED, block)
        && !copies.isResidentElsewhere(number, block);
  }

  /** Updates the counts for a block; called after every change of the block. */
  void recount(int block) {
    boolean could = has(block);
    if (could != copies.has(CopyTable.EVICTABLE, number, block)) {
      copies.set(CopyTable.EVICTABLE, number, block, could);
      int sizeClass = slots.classOf(copies.slot(number, block));
      ofClass[sizeClass] += could ? 1 : -1;
      ofPart[slots.partOfClass(sizeClass)] += could ? 1 : -1;
    }
    boolean isOnlyHere = could && isOnlyHere(block);
    if (isOnlyHere != isCountedOnlyHere(block)) {
      copies.set(CopyTable.ONLY_HERE, number, block, isOnlyHere);
      int part = slots.partOfClass(slots.classOf(copies.slot(number, block)));
      firstsOfPart[part] += onlyHereOfPart[part] == 0 ? 1 : 0;
      onlyHereOfPart[part] += isOnlyHere ? 1 : -1;
    }
  }

  /** Whether a block has no copy in any other tier. */
  boolean isOnlyHere(int block) {
    return number > 0 && !copies.isElsewhere(number, block);
  }

  /** Whether a copy could leave, and is in no other tier. */
  boolean isCountedOnlyHere(int block) {
    return number > 0 && copies.has(CopyTable.ONLY_HERE, number, block);
  }

  /** Copies of a size class that could leave. */
  int ofClass(int sizeClass) {
    return ofClass[sizeClass];
  }

  /** Copies of a part that could leave. */
  int ofPart(int part) {
    return ofPart[part];
  }

  /** Copies of a part that could leave, and are in no other tier. */
  int onlyHereOfPart(int part) {
    return onlyHereOfPart[part];
  }

  /** A number that changes whenever the count of {@link #onlyHereOfPart} rises from 0. */
  int firstsOfPart(int part) {
    return firstsOfPart[part];
  }

  /** Checks the counts against the copies of the tier; for tests. */
  void checkInvariants() {
    int[] byClass = new int[ofClass.length];
    int[] onlyHereByPart = new int[onlyHereOfPart.length];
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && has(block)) {
        int slot = copies.slot(number, block);
        byClass[slots.classOf(slot)]++;
        onlyHereByPart[slots.partOf(slots.regionOf(slot))] += isOnlyHere(block) ? 1 : 0;
      }
    }
    if (!Arrays.equals(byClass, ofClass) || !Arrays.equals(onlyHereByPart, onlyHereOfPart)) {
      throw new IllegalStateException("tier " + number + " miscounts the blocks that could leave");
    }
  }
}

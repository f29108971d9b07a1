package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Arrays;

/**
 * The search for the next copy to leave a tier. The policy names victims; this class knows which
 * copies it may name. Confined to the index.
 */
public final class VictimSearch {
  // How many blocks of a policy's order a search looks at for a block of the right size or place.
  private static final int WINDOW = 64;

  // How many held blocks one search reports to the policy.
  private static final int HELD_MAX = 1024;

  /** A region is sparse when at most one slot of this many is in use. */
  private static final int SPARSE_SHARE = 16;

  /** After this many evictions, a search for a victim also looks for a sparse region. */
  private static final int SPARSE_EVERY = 16;

  /** Maximum look budget that searches for blocks that are only in this tier may accumulate. */
  private static final int LOOKS_MAX = HELD_MAX;

  /** Looks that each such search adds to the budget. */
  private static final int LOOKS_EARNED = 64;

  private final int number;
  private final Directory directory;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final TierPolicies policies;
  private final Evictables evictables;
  private final Draining draining;
  private final Aside aside;
  private final int[] held = new int[HELD_MAX];
  private final VictimFilter near = this::isNear;
  private final VictimFilter ofClass = this::isOfClass;
  private final VictimFilter ofClassAndLane = this::isOfClassAndLane;
  private final VictimFilter foreign = this::isForeign;
  private final VictimFilter sparseForeign = this::isSparseForeign;
  private final VictimFilter evictableOnlyHere = this::isEvictableOnlyHere;
  private final int[] looksOfPart;

  /** Whether the last search found nothing: the next one waits until the look budget is full. */
  private final boolean[] isSaving;

  private final int[] firstsSeen;
  private int leftSinceLook;
  private int heldCount;
  private int refusals;
  private int soughtClass;
  private long soughtFor;
  private boolean mayDoubt;
  private int soughtLane;

  VictimSearch(
      int number,
      Directory directory,
      SlotAllocator slots,
      TierPolicies policies,
      Evictables evictables,
      Draining draining,
      Aside aside) {
    this.number = number;
    this.directory = directory;
    copies = directory.copies();
    this.slots = slots;
    this.policies = policies;
    this.evictables = evictables;
    this.draining = draining;
    this.aside = aside;
    looksOfPart = new int[slots.parts()];
    Arrays.fill(looksOfPart, LOOKS_MAX);
    isSaving = new boolean[slots.parts()];
    firstsSeen = new int[slots.parts()];
  }

  /** The order of the copies has changed: the last search says nothing about the next one. */
  void orderChanged() {
    Arrays.fill(isSaving, false);
  }

  /** A copy was evicted. */
  void left() {
    leftSinceLook++;
  }

  /**
   * The next block of a size class to leave. Where every block at the cold end is of another size
   * class, a region of that class begins to drain, and becomes a region of this class. A region
   * with few slots in use, by cold blocks, begins to drain, too.
   *
   * @param session the session whose slabs are searched first
   * @param inFlight transfers under way, whose blocks stand in the way at the cold end
   * @param ofAnySlot whether a block in a doubtful slot will do
   * @return the block, or {@link EvictionPolicy#NONE}
   */
  public int next(int sizeClass, long session, int inFlight, boolean ofAnySlot) {
    mayDoubt = ofAnySlot;
    soughtClass = sizeClass;
    soughtFor = session;
    heldCount = 0;
    int part = slots.partOfClass(sizeClass);
    EvictionPolicy policy = policies.of(part);
    int looks = WINDOW + inFlight;
    int victim = EvictionPolicy.NONE;
    if (evictables.ofClass(sizeClass) > 0) {
      victim = session == SlotAllocator.DAEMON ? victim : policy.victim(near, looks);
      victim = victim == EvictionPolicy.NONE ? policy.victim(ofClass, looks) : victim;
    }
    if (victim == EvictionPolicy.NONE) {
      drain(part, foreign, slots.regionsOfClass(sizeClass) == 0 ? Integer.MAX_VALUE : looks);
      if (evictables.ofClass(sizeClass) > 0) {
        victim = policy.victim(ofClass, Integer.MAX_VALUE);
      }
    }
    passHeld(policy);
    if (victim != EvictionPolicy.NONE
        && !slots.isOpen(slots.regionOf(copies.slot(number, victim)))) {
      victim = EvictionPolicy.NONE;
    }
    aside.takeBarred();
    if (victim != EvictionPolicy.NONE && leftSinceLook >= SPARSE_EVERY) {
      leftSinceLook = 0;
      drain(part, sparseForeign, WINDOW);
    }
    return victim;
  }

  /**
   * The next block of a size class to leave after another of its lane, near the cold end. The lane
   * need not be open: the eviction before this one may have closed it.
   */
  public int beside(int sizeClass, int lane, int inFlight) {
    soughtClass = sizeClass;
    soughtLane = lane;
    EvictionPolicy policy = policies.of(slots.partOfClass(sizeClass));
    return policy.victim(ofClassAndLane, WINDOW + inFlight);
  }

  /**
   * Tells the policy that the held blocks at its cold end are not cold: else every search would
   * meet them.
   */
  private void passHeld(EvictionPolicy policy) {
    for (int i = 0; i < heldCount; i++) {
      policy.onPassed(held[i]);
    }
    heldCount = 0;
  }

  private void drain(int part, VictimFilter ofOthers, int looks) {
    if (slots.draining(part) == SlotAllocator.NONE
        && evictables.ofPart(part) > evictables.ofClass(soughtClass)) {
      int other = policies.of(part).victim(ofOthers, looks);
      if (other != EvictionPolicy.NONE) {
        draining.begin(other, soughtClass);
      }
    }
  }

  /**
   * The next block of a part to leave, near the cold end, among those that only this tier has. A
   * block that a tier above has, too, is used there, and this tier's policy does not hear of the
   * uses: the block is at the cold end here, and is not cold. Where many such blocks are in the
   * way, most searches are given up, because each of them could take long.
   */
  public int onlyHere(int part) {
    int looks = Math.min(LOOKS_MAX, looksOfPart[part] + LOOKS_EARNED);
    looksOfPart[part] = looks;
    // The last search may have failed because there was no such block. Now there may be one.
    isSaving[part] &= firstsSeen[part] == evictables.firstsOfPart(part);
    firstsSeen[part] = evictables.firstsOfPart(part);
    if (evictables.onlyHereOfPart(part) == 0 || (isSaving[part] && looks < LOOKS_MAX)) {
      return EvictionPolicy.NONE;
    }
    heldCount = 0;
    refusals = 0;
    EvictionPolicy policy = policies.of(part);
    int victim = policy.victim(evictableOnlyHere, looks);
    looksOfPart[part] = Math.max(0, looks - refusals);
    isSaving[part] = victim == EvictionPolicy.NONE;
    passHeld(policy);
    return victim;
  }

  private boolean isEvictableOnlyHere(int block) {
    boolean accepted = evictables.isCountedOnlyHere(block);
    if (!accepted) {
      refusals++;
      boolean isMet = !evictables.isOnlyHere(block) || evictables.isRetainedHere(block);
      if (isMet && heldCount < held.length) {
        held[heldCount++] = block;
      }
    }
    return accepted;
  }

  /** The next block of a part to leave among those that a filter accepts, near the cold end. */
  public int next(int part, VictimFilter filter) {
    return policies.of(part).victim(filter, WINDOW);
  }

  // ---- what a search may name

  private boolean isOfClass(int block) {
    int slot = copies.slot(number, block);
    if (slots.classOf(slot) != soughtClass || (!mayDoubt && slots.isDoubtful(slot))) {
      return false;
    }
    if (!slots.isOpen(slots.regionOf(slot))) {
      return aside.isOneTooMany(block, slots.regionOf(slot));
    }
    if (!evictables.has(block) && directory.uses(block) == 0 && heldCount < held.length) {
      held[heldCount++] = block;
    }
    return evictables.has(block);
  }

  private boolean isNear(int block) {
    long granted = slots.grantedTo(slots.regionOf(copies.slot(number, block)));
    return (granted == soughtFor || granted == SlotAllocator.DAEMON) && isOfClass(block);
  }

  private boolean isOfClassAndLane(int block) {
    int slot = copies.slot(number, block);
    return slots.classOf(slot) == soughtClass
        && slots.laneOf(slots.regionOf(slot)) == soughtLane
        && evictables.has(block);
  }

  private boolean isForeign(int block) {
    int slot = copies.slot(number, block);
    return slots.classOf(slot) != soughtClass
        && slots.isOpen(slots.regionOf(slot))
        && evictables.has(block);
  }

  private boolean isSparseForeign(int block) {
    int region = slots.regionOf(copies.slot(number, block));
    return slots.usedOf(region) * SPARSE_SHARE <= slots.slotsOf(region) && isForeign(block);
  }
}

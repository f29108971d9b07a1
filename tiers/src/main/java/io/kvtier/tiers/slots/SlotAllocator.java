package io.kvtier.tiers.slots;

import java.util.BitSet;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;

/**
 * The slots of one tier. The tier's space is a fixed number of equal regions (slabs of memory,
 * files). A region is assigned to one size class at a time and cut into slots of that size. A slot
 * is named by an int. Each used slot knows the block in it. Confined to the index; allocates only
 * when a region is assigned, and when slots become doubtful.
 *
 * <p>Regions lie in lanes, one a device or a NUMA node. {@link RegionChoice} says which region the
 * next slot comes from.
 *
 * <p>Each region belongs to one part of the tier for good, and so does each size class. No part
 * ever has slots in a region of another part. This keeps blocks apart that must not meet.
 *
 * <p>A region may be granted to a session, which then may write into it. Slots for a session come
 * from regions granted to it or to nobody; the allocator remembers who could ever have written to a
 * region, so that readers know when to verify.
 *
 * <p>A slot is doubtful while a client whose reservation has ended may still write it. The bytes of
 * the slot's next block could then change. Doubtful free slots are in lists of their own, and only
 * callers that ask for them get them.
 */
public final class SlotAllocator {
  /** No slot, no region, no block. */
  public static final int NONE = SlotNumbers.NONE;

  /** The caller wants a slot of no particular lane. */
  public static final int ANY_LANE = NONE;

  /** The writer of regions that only the daemon writes. */
  public static final long DAEMON = RegionWriters.DAEMON;

  /**
   * A writer without a session: a client of an earlier start of the daemon, which may still run.
   */
  public static final long UNKNOWN = -1;

  /** The most size classes of a part. */
  public static final int CLASSES_MAX = SizeClasses.MAX_OF_PART;

  private final long regionBytes;
  private final int slotBytesMin;
  private final SlotNumbers numbers;
  private final SizeClasses sizes;
  private final RegionSlots slots;
  private final Regions regions;
  private final RegionWriters writers;
  private final RegionChoice choice;

  /** An empty tier. */
  public SlotAllocator(int regions, long regionBytes, int slotBytesMin) {
    this(regions, regionBytes, slotBytesMin, 1);
  }

  /** An empty tier on several devices. */
  public SlotAllocator(int regions, long regionBytes, int slotBytesMin, int lanes) {
    this(new int[regions], 1, regionBytes, slotBytesMin, lanes);
  }

  /**
   * An empty tier of several parts.
   *
   * @param partOfRegion which part each region is of
   * @param slotBytesMin the granularity of slot sizes, a power of two
   */
  public SlotAllocator(
      int[] partOfRegion, int parts, long regionBytes, int slotBytesMin, int lanes) {
    this(
        partOfRegion,
        parts,
        regionBytes,
        slotBytesMin,
        RegionLanes.inTurn(partOfRegion.length, lanes));
  }

  /**
   * An empty tier of several parts.
   *
   * @param partOfRegion which part each region is of
   * @param slotBytesMin the granularity of slot sizes, a power of two
   * @param lanes the lane of each region
   */
  public SlotAllocator(
      int[] partOfRegion, int parts, long regionBytes, int slotBytesMin, RegionLanes lanes) {
    this.regionBytes = regionBytes;
    this.slotBytesMin = slotBytesMin;
    numbers = SlotNumbers.of(partOfRegion.length, regionBytes / slotBytesMin);
    sizes = new SizeClasses(parts, regionBytes, slotBytesMin);
    slots = new RegionSlots(partOfRegion.length);
    regions = new Regions(partOfRegion, parts, sizes, slots, lanes);
    writers = new RegionWriters(partOfRegion.length);
    choice = new RegionChoice(sizes, slots, regions, writers, lanes);
  }

  /**
   * The finest granularity at which a tier of that many regions has numbers for all its slots, from
   * a least one upward.
   *
   * @param least a power of two
   */
  public static int granularity(int regions, long regionBytes, int least) {
    return SlotNumbers.granularity(regions, regionBytes, least);
  }

  /**
   * The size class for blocks of that many bytes; made when it is new.
   *
   * @return {@link #NONE} when a region is too small for one slot or there are too many classes
   */
  public int sizeClass(long bytes) {
    return sizeClass(0, bytes);
  }

  /** The size class for blocks of that many bytes in a part. */
  public int sizeClass(int part, long bytes) {
    return sizes.of(part, bytes);
  }

  /** Whether blocks of that many bytes have a size class in a part; makes none. */
  public boolean hasClass(int part, long bytes) {
    return sizes.has(part, bytes);
  }

  /** How many size classes of a part are in use. */
  public int classesInUse(int part) {
    return sizes.inUse(part);
  }

  /** Lets size classes without a region stand for other sizes, except those that are wanted. */
  public void forgetClasses(BitSet wanted) {
    sizes.forget(wanted);
  }

  /**
   * Takes a slot for a block that nobody else writes.
   *
   * @param session who will write it, or {@link #DAEMON}, which may write anywhere
   * @param mayTake whether a region granted to another session may be taken over
   * @return the slot, or {@link #NONE}
   */
  public int allocate(int sizeClass, long session, boolean mayTake, int block) {
    return allocate(sizeClass, session, mayTake, false, block, ANY_LANE);
  }

  /**
   * Takes a slot for a block.
   *
   * @param session who will write it, or {@link #DAEMON}, which may write anywhere
   * @param mayTake whether a region granted to another session may be taken over
   * @param mayDoubt whether the slot may be doubtful, if there is no other
   * @param lane the lane that the slot is taken from if it has one, or {@link #ANY_LANE}
   * @return the slot, or {@link #NONE}
   */
  public int allocate(
      int sizeClass, long session, boolean mayTake, boolean mayDoubt, int block, int lane) {
    int region = choice.next(sizeClass, session, mayTake, mayDoubt, lane);
    if (region == NONE) {
      return NONE;
    }
    if (session != DAEMON) {
      writers.grant(region, session);
    }
    return numbers.slot(region, regions.take(region, block));
  }

  /**
   * Takes a certain slot for a block that stands there already; for the start, before anything is
   * allocated.
   *
   * @param offset the slot's offset in its region, in bytes
   * @return the slot, or {@link #NONE} when there is no such slot of that size, or it is taken
   */
  public int adopt(int sizeClass, int region, long offset, int block) {
    if (region < 0
        || region >= regions.count()
        || regions.partOf(region) != sizes.partOf(sizeClass)
        || offset % sizes.slotBytes(sizeClass) != 0) {
      return NONE;
    }
    if (regions.classOf(region) == NONE) {
      regions.assign(region, sizeClass);
    }
    long index = offset / sizes.slotBytes(sizeClass);
    if (regions.classOf(region) != sizeClass
        || index < 0
        || index >= slots.slots(region)
        || slots.blockAt(region, (int) index) != NONE) {
      return NONE;
    }
    regions.adopt(region, (int) index, block);
    return numbers.slot(region, (int) index);
  }

  /** Links the slots that {@link #adopt} left free; once, after the last of them. */
  public void endAdoption() {
    regions.endAdoption();
  }

  /** Sets which lanes slots may be taken from now; asked at every allocation. */
  public void openLanes(IntPredicate open) {
    choice.openLanes(open);
  }

  public int lanes() {
    return choice.lanes();
  }

  /** The lane that a region lies in. */
  public int laneOf(int region) {
    return choice.laneOf(region);
  }

  /** Whether slots may be taken from a region's lane now. */
  public boolean isOpen(int region) {
    return choice.isOpen(choice.laneOf(region));
  }

  /** Gives a slot back. */
  public void free(int slot) {
    int region = numbers.region(slot);
    int index = numbers.index(slot);
    if (slots.blockAt(region, index) == NONE) {
      throw new IllegalStateException("slot " + slot + " is free already");
    }
    regions.giveBack(region, index);
    if (slots.used(region) == 0 && regions.isDraining(region)) {
      choice.unassign(region);
      regions.undrain(regions.partOf(region));
    }
  }

  /**
   * Begins to empty a region, so that another size class can have it: nothing is allocated there
   * any more, and it is unassigned when its last slot is freed. One region of a part drains at a
   * time.
   */
  public void drain(int region) {
    int drains = regions.draining(regions.partOf(region));
    if (drains != NONE) {
      throw new IllegalStateException("region " + drains + " drains already");
    }
    if (slots.used(region) == 0) {
      choice.unassign(region);
    } else {
      regions.drain(region);
    }
  }

  /** Gives up emptying a part's region: its free slots are given out again. */
  public void undrain(int part) {
    regions.undrain(part);
  }

  /** Whether a region of any part is being emptied. */
  public boolean isDraining() {
    return regions.isAnyDraining();
  }

  /** The region of a part that is being emptied, or {@link #NONE}. */
  public int draining(int part) {
    return regions.draining(part);
  }

  /** How many parts the tier has. */
  public int parts() {
    return regions.parts();
  }

  /** The part that a region is of. */
  public int partOf(int region) {
    return regions.partOf(region);
  }

  /** The part that a size class is of. */
  public int partOfClass(int sizeClass) {
    return sizes.partOf(sizeClass);
  }

  /** How many regions a part has. */
  public int regionsOfPart(int part) {
    return regions.regionsOfPart(part);
  }

  /** One past the highest number that a size class can have. */
  public int classesMax() {
    return sizes.max();
  }

  // ---- writers and doubts
  // ------------------------------------------------------------------------------------------------

  /** A session has ended: what was granted to it is granted to nobody. */
  public void revoke(long session) {
    writers.revoke(session);
  }

  /** The session that may write into a region, or {@link #DAEMON}. */
  public long grantedTo(int region) {
    return writers.grantedTo(region);
  }

  /**
   * A session has mapped, or may map, a region for writing; told once for each session and region.
   */
  public void addWriter(int region, long session) {
    writers.add(region, session);
  }

  /** Sets who is told of each region that gets its first writer, before it has that writer. */
  public void onFirstWriter(IntConsumer told) {
    writers.onFirst(told);
  }

  /**
   * Whether a session other than this one could write into the region. One that has ended still
   * can: its process may keep the mapping, and nobody can take it away.
   */
  public boolean isWritableByOthers(int region, long session) {
    return writers.isWritableByOthers(region, session);
  }

  /**
   * A client that has lost its slot may still write to a range of a region. From now on, readers
   * verify the blocks of the region, and slots that touch the range are doubtful.
   */
  public void doubt(int region, long offset, long bytes) {
    writers.add(region, UNKNOWN);
    slots.doubt(region, offset, bytes);
  }

  /** Ends a doubt: the client no longer writes to the range. */
  public void trust(int region, long offset, long bytes) {
    slots.trust(region, offset, bytes);
  }

  /** Whether there may be doubtful slots. */
  public boolean hasDoubts() {
    return slots.hasDoubts();
  }

  /** Whether a client that has lost a slot may still write it. */
  public boolean isDoubtful(int slot) {
    return slots.isDoubtful(numbers.region(slot), numbers.index(slot));
  }

  // ---- what stands where
  // ------------------------------------------------------------------------------------------------

  public int regionOf(int slot) {
    return numbers.region(slot);
  }

  /** A slot's offset in its region, in bytes. */
  public long offsetOf(int slot) {
    return (long) numbers.index(slot) * sizes.slotBytes(classOf(slot));
  }

  public int classOf(int slot) {
    return regions.classOf(numbers.region(slot));
  }

  /** The block in the i-th slot of a region, or {@link #NONE}. */
  public int blockAt(int region, int index) {
    return slots.blockAt(region, index);
  }

  /** The block in a slot, or {@link #NONE}. */
  public int blockInSlot(int slot) {
    return slots.blockAt(numbers.region(slot), numbers.index(slot));
  }

  /** How many slots each region of a size class is cut into. */
  public int slotsPerRegion(int sizeClass) {
    return sizes.slotsPerRegion(sizeClass);
  }

  /** How many slots a region is cut into; 0 when it is not assigned. */
  public int slotsOf(int region) {
    return slots.slots(region);
  }

  /** How many slots of a region are in use. */
  public int usedOf(int region) {
    return slots.used(region);
  }

  /** The size class of a region, or {@link #NONE}. */
  public int classOfRegion(int region) {
    return regions.classOf(region);
  }

  public long regionBytes() {
    return regionBytes;
  }

  public int regions() {
    return regions.count();
  }

  public int classes() {
    return sizes.count();
  }

  /** How many regions a size class has. */
  public int regionsOfClass(int sizeClass) {
    return sizes.regions(sizeClass);
  }

  /** Free slots of a size class in regions that are its own. */
  public int freeOfClass(int sizeClass) {
    return regions.freeOfClass(sizeClass);
  }

  public int slotBytes(int sizeClass) {
    return sizes.slotBytes(sizeClass);
  }

  /** How many regions of a part are of no size class. */
  public int unassignedRegions(int part) {
    return regions.unassigned(part);
  }

  /** The most slots that there could be, of the smallest size. */
  public long slotsMax() {
    return (regionBytes / slotBytesMin) * regions.count();
  }

  public int slotsTotal() {
    return regions.slotsTotal();
  }

  public int slotsFree() {
    return regions.slotsFree();
  }

  public long bytesUsed() {
    return regions.bytesUsed();
  }

  /** The bytes of a part's used slots; looks at all regions. */
  public long bytesUsed(int part) {
    return regions.bytesUsed(part);
  }

  public long bytesCapacity() {
    return regionBytes * regions.count();
  }

  /** Checks the structure, for tests. */
  public void checkInvariants() {
    regions.checkInvariants();
  }
}

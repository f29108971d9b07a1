package io.kvtier.tiers.slots;

import java.util.Arrays;
import java.util.BitSet;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * The slots of one tier. The tier's space is a fixed number of equal regions (slabs of memory,
 * files); a region is assigned to one size class at a time and cut into slots of that size. A slot
 * is named by an int: its region in the high bits, its index in the low ones. Each used slot knows
 * the block in it. Confined to the index; nothing is allocated but when a region is assigned.
 *
 * <p>Regions lie in lanes, one a device: region r in lane r modulo their number. Slots are taken
 * from the lanes in turn, and from open lanes only.
 *
 * <p>Each region is of one part of the tier for good, and so is each size class: no part ever has
 * slots in a region of another. Blocks that must not meet are kept apart by that.
 *
 * <p>A region may be granted to a session, which then may write into it. Slots for a session come
 * from regions granted to it or to nobody; the allocator remembers who could ever have written to a
 * region, so that readers know when to verify.
 *
 * <p>A slot is doubtful while somebody may still write it whose reservation has ended: the slot's
 * bytes can change behind the back of whoever has it next. Free slots of both kinds stand in lists
 * of their own, and who does not ask for doubtful slots gets none.
 */
public final class SlotAllocator {
  /** No slot, no region, no block. */
  public static final int NONE = -1;

  /** The writer of regions that only the daemon writes. */
  public static final long DAEMON = 0;

  /** A writer that nobody can name: one of an earlier start of the daemon, which may still live. */
  public static final long UNKNOWN = -1;

  /** The most size classes of a part. */
  public static final int CLASSES_MAX = 64;

  private final long regionBytes;
  private final int slotBytesMin;
  private final int indexBits;
  private final int indexMask;
  private final int[] classOfRegion;
  private final int[] freeCount;
  private final int[] freeHead;
  private final int[] doubtfulHead;
  private final int[] usedCount;
  private final long[] grantedTo;
  private final int[] writers;
  private final long[] writersXor;
  private final int[][] nextFree;
  private final int[][] blockOf;
  private final DoubtfulRanges doubts;

  /** The slots of each assigned region that are doubtful; null: none is. */
  private final @Nullable BitSet[] doubtful;

  /** Some of the marked slots may be so no longer. */
  private final boolean[] hasFewerDoubts;

  private final int parts;
  private final int classesMax;
  private final int[] partOfRegion;
  private final int[] regionsOfPart;
  private final int[] unassigned;
  private final int[] draining;
  private int drains;
  private final int[] classesOfPart;
  private final int[] partOfClass;
  private final int[] slotBytes;
  private final int[] slotsPerRegion;
  private final int lanes;
  private final int[] lastRegion;
  private final int[] freeOfClass;
  private final int[] regionsOfClass;
  private IntPredicate openLanes = lane -> true;
  private IntConsumer onFirstWriter = region -> {};
  private int nextLane;
  private int classes;
  private final BitSet unused = new BitSet();
  private long bytesUsed;
  private int slotsTotal;
  private int slotsFree;

  /**
   * A tier with nothing in it.
   *
   * @param slotBytesMin the granularity of slot sizes, a power of two
   */
  public SlotAllocator(int regions, long regionBytes, int slotBytesMin) {
    this(regions, regionBytes, slotBytesMin, 1);
  }

  /**
   * A tier with nothing in it, on several devices.
   *
   * @param slotBytesMin the granularity of slot sizes, a power of two
   */
  public SlotAllocator(int regions, long regionBytes, int slotBytesMin, int lanes) {
    this(new int[regions], 1, regionBytes, slotBytesMin, lanes);
  }

  /**
   * A tier with nothing in it, in several parts.
   *
   * @param partOfRegion which part each region is of
   * @param slotBytesMin the granularity of slot sizes, a power of two
   */
  public SlotAllocator(
      int[] partOfRegion, int parts, long regionBytes, int slotBytesMin, int lanes) {
    int regions = partOfRegion.length;
    this.partOfRegion = partOfRegion.clone();
    this.parts = parts;
    regionsOfPart = new int[parts];
    for (int part : partOfRegion) {
      regionsOfPart[part]++;
    }
    unassigned = regionsOfPart.clone();
    draining = filled(parts);
    classesMax = parts * CLASSES_MAX;
    classesOfPart = new int[parts];
    partOfClass = new int[classesMax];
    slotBytes = new int[classesMax];
    slotsPerRegion = new int[classesMax];
    freeOfClass = new int[classesMax];
    regionsOfClass = new int[classesMax];
    this.lanes = lanes;
    lastRegion = new int[classesMax * lanes];
    this.regionBytes = regionBytes;
    this.slotBytesMin = slotBytesMin;
    long slotsMax = regionBytes / slotBytesMin;
    this.indexBits = indexBits(slotsMax);
    if (!fits(regions, indexBits)) {
      throw new IllegalArgumentException(
          regions
              + " regions of "
              + slotsMax
              + " slots are more than 2^31 slots: choose fewer, larger regions");
    }
    this.indexMask = (1 << indexBits) - 1;
    classOfRegion = filled(regions);
    freeCount = new int[regions];
    freeHead = filled(regions);
    doubtfulHead = filled(regions);
    doubts = new DoubtfulRanges(regions);
    doubtful = new BitSet[regions];
    hasFewerDoubts = new boolean[regions];
    usedCount = new int[regions];
    grantedTo = new long[regions];
    writers = new int[regions];
    writersXor = new long[regions];
    nextFree = new int[regions][];
    blockOf = new int[regions][];
    Arrays.fill(lastRegion, NONE);
  }

  /**
   * The finest granularity at which a tier of that many regions has numbers for all its slots, from
   * a least one upward.
   *
   * @param least a power of two
   */
  public static int granularity(int regions, long regionBytes, int least) {
    int granularity = least;
    while (!fits(regions, indexBits(regionBytes / granularity)) && granularity < 1 << 30) {
      granularity *= 2;
    }
    return granularity;
  }

  private static int indexBits(long slotsMax) {
    return 64 - Long.numberOfLeadingZeros(Math.max(1, slotsMax) - 1);
  }

  private static boolean fits(int regions, int indexBits) {
    return indexBits < 31 && ((long) regions << indexBits) <= Integer.MAX_VALUE + 1L;
  }

  private static int[] filled(int length) {
    int[] array = new int[length];
    Arrays.fill(array, NONE);
    return array;
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
    long rounded = (bytes + slotBytesMin - 1) / slotBytesMin * slotBytesMin;
    for (int i = 0; i < classes; i++) {
      if (slotBytes[i] == rounded && partOfClass[i] == part) {
        unused.clear(i);
        return i;
      }
    }
    if (rounded > regionBytes || rounded > Integer.MAX_VALUE) {
      return NONE;
    }
    int made = unusedOf(part);
    if (made == NONE) {
      if (classesOfPart[part] == CLASSES_MAX) {
        return NONE;
      }
      made = classes++;
      classesOfPart[part]++;
      partOfClass[made] = part;
    }
    unused.clear(made);
    slotBytes[made] = (int) rounded;
    slotsPerRegion[made] = (int) (regionBytes / rounded);
    return made;
  }

  /** Whether blocks of that many bytes have a size class in a part; makes none. */
  public boolean hasClass(int part, long bytes) {
    long rounded = (bytes + slotBytesMin - 1) / slotBytesMin * slotBytesMin;
    for (int i = 0; i < classes; i++) {
      if (slotBytes[i] == rounded && partOfClass[i] == part && !unused.get(i)) {
        return true;
      }
    }
    return false;
  }

  /** How many size classes of a part are wanted, as far as anybody has looked. */
  public int classesInUse(int part) {
    int inUse = 0;
    for (int i = 0; i < classes; i++) {
      inUse += partOfClass[i] == part && !unused.get(i) ? 1 : 0;
    }
    return inUse;
  }

  private int unusedOf(int part) {
    int found = unused.nextSetBit(0);
    while (found >= 0 && partOfClass[found] != part) {
      found = unused.nextSetBit(found + 1);
    }
    return found < 0 ? NONE : found;
  }

  /**
   * Size classes without a region, which nobody wants any more, may come to stand for other sizes.
   *
   * @param wanted those that somebody wants
   */
  public void forgetClasses(BitSet wanted) {
    for (int i = 0; i < classes; i++) {
      if (regionsOfClass[i] == 0 && !wanted.get(i)) {
        unused.set(i);
      }
    }
  }

  /**
   * Takes a slot for a block that nobody else writes.
   *
   * @param session who will write it, or {@link #DAEMON}, which may write anywhere
   * @param mayTake whether a region granted to another session may be taken over
   * @return the slot, or {@link #NONE}
   */
  public int allocate(int sizeClass, long session, boolean mayTake, int block) {
    return allocate(sizeClass, session, mayTake, false, block);
  }

  /**
   * Takes a slot for a block.
   *
   * @param session who will write it, or {@link #DAEMON}, which may write anywhere
   * @param mayTake whether a region granted to another session may be taken over
   * @param mayDoubt whether a doubtful slot will do, where there is no other
   * @return the slot, or {@link #NONE}
   */
  public int allocate(int sizeClass, long session, boolean mayTake, boolean mayDoubt, int block) {
    int region = NONE;
    for (int i = 0; i < lanes && region == NONE; i++) {
      int lane = nextLane;
      nextLane = lane + 1 == lanes ? 0 : lane + 1;
      if (openLanes.test(lane)) {
        region = regionFor(sizeClass, lane, session, mayTake, mayDoubt);
      }
    }
    if (region == NONE) {
      return NONE;
    }
    if (session != DAEMON && grantedTo[region] != session) {
      grantedTo[region] = session;
    }
    int[] heads = freeHead[region] == NONE ? doubtfulHead : freeHead;
    int index = heads[region];
    heads[region] = nextFree[region][index];
    take(region, index, block);
    return region << indexBits | index;
  }

  private boolean hasFree(int region, boolean mayDoubt) {
    if (freeCount[region] == 0) {
      return false;
    }
    if (!mayDoubt && freeHead[region] == NONE && classOfRegion[region] != NONE) {
      lookAgain(region);
    }
    return mayDoubt || freeHead[region] != NONE;
  }

  private void take(int region, int index, int block) {
    int sizeClass = classOfRegion[region];
    freeCount[region]--;
    usedCount[region]++;
    freeOfClass[sizeClass]--;
    slotsFree--;
    bytesUsed += slotBytes[sizeClass];
    blockOf[region][index] = block;
  }

  private int regionFor(int sizeClass, int lane, long session, boolean mayTake, boolean mayDoubt) {
    int last = lastRegion[lane * classesMax + sizeClass];
    if (last != NONE && hasFree(last, mayDoubt) && !isDraining(last) && suits(last, session)) {
      return last;
    }
    int region = findRegion(sizeClass, lane, session, mayTake, mayDoubt);
    if (region != NONE) {
      lastRegion[lane * classesMax + sizeClass] = region;
    }
    return region;
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
        || region >= classOfRegion.length
        || partOfRegion[region] != partOfClass[sizeClass]
        || offset % slotBytes[sizeClass] != 0) {
      return NONE;
    }
    if (classOfRegion[region] == NONE) {
      assign(region, sizeClass);
    }
    long index = offset / slotBytes[sizeClass];
    if (classOfRegion[region] != sizeClass
        || index < 0
        || index >= blockOf[region].length
        || blockOf[region][(int) index] != NONE) {
      return NONE;
    }
    take(region, (int) index, block);
    return region << indexBits | (int) index;
  }

  /** Links the slots that {@link #adopt} left free; once, after the last of them. */
  public void endAdoption() {
    for (int region = 0; region < classOfRegion.length; region++) {
      if (classOfRegion[region] == NONE) {
        continue;
      }
      linkFree(region);
    }
  }

  /** Puts a region's free slots into their lists, in the order of their places. */
  private void linkFree(int region) {
    freeHead[region] = NONE;
    doubtfulHead[region] = NONE;
    for (int i = blockOf[region].length - 1; i >= 0; i--) {
      if (blockOf[region][i] == NONE) {
        link(region, i);
      }
    }
  }

  private void link(int region, int index) {
    int[] heads = isDoubtful(region, index) ? doubtfulHead : freeHead;
    nextFree[region][index] = heads[region];
    heads[region] = index;
  }

  /** Sets which lanes slots may be taken from now; asked at every allocation. */
  public void openLanes(IntPredicate open) {
    openLanes = open;
  }

  public int lanes() {
    return lanes;
  }

  /** The lane that a region lies in. */
  public int laneOf(int region) {
    return region % lanes;
  }

  /** Whether slots may be taken from a region's lane now. */
  public boolean isOpen(int region) {
    return openLanes.test(region % lanes);
  }

  private boolean isDraining(int region) {
    return draining[partOfRegion[region]] == region;
  }

  private boolean suits(int region, long session) {
    return session == DAEMON || grantedTo[region] == session || grantedTo[region] == DAEMON;
  }

  private int findRegion(int sizeClass, int lane, long session, boolean mayTake, boolean mayDoubt) {
    int takeable = NONE;
    if (freeOfClass[sizeClass] > 0) {
      for (int region = lane; region < classOfRegion.length; region += lanes) {
        if (classOfRegion[region] == sizeClass
            && hasFree(region, mayDoubt)
            && !isDraining(region)) {
          if (suits(region, session)) {
            return region;
          }
          takeable = region;
        }
      }
    }
    for (int region = lane; region < classOfRegion.length; region += lanes) {
      // An empty region of another class is as good as one of none.
      if (usedCount[region] == 0
          && partOfRegion[region] == partOfClass[sizeClass]
          && !isDraining(region)
          && classOfRegion[region] != sizeClass) {
        if (classOfRegion[region] != NONE) {
          unassign(region);
        }
        assign(region, sizeClass);
        if (hasFree(region, mayDoubt)) {
          return region;
        }
      }
    }
    return mayTake ? takeable : NONE;
  }

  private void assign(int region, int sizeClass) {
    int slots = slotsPerRegion[sizeClass];
    int[] next = nextFree[region];
    if (next == null || next.length != slots) {
      nextFree[region] = new int[slots];
      blockOf[region] = new int[slots];
    }
    Arrays.fill(blockOf[region], NONE);
    classOfRegion[region] = sizeClass;
    mark(region);
    linkFree(region);
    freeCount[region] = slots;
    usedCount[region] = 0;
    regionsOfClass[sizeClass]++;
    freeOfClass[sizeClass] += slots;
    slotsFree += slots;
    slotsTotal += slots;
    unassigned[partOfRegion[region]]--;
  }

  /** Gives a slot back. */
  public void free(int slot) {
    int region = slot >>> indexBits;
    int index = slot & indexMask;
    if (blockOf[region][index] == NONE) {
      throw new IllegalStateException("slot " + slot + " is free already");
    }
    int sizeClass = classOfRegion[region];
    blockOf[region][index] = NONE;
    link(region, index);
    freeCount[region]++;
    usedCount[region]--;
    freeOfClass[sizeClass]++;
    slotsFree++;
    bytesUsed -= slotBytes[sizeClass];
    if (usedCount[region] == 0 && isDraining(region)) {
      unassign(region);
      undrain(partOfRegion[region]);
    }
  }

  private void unassign(int region) {
    int sizeClass = classOfRegion[region];
    freeOfClass[sizeClass] -= freeCount[region];
    slotsFree -= freeCount[region];
    slotsTotal -= freeCount[region];
    regionsOfClass[sizeClass]--;
    int last = laneOf(region) * classesMax + sizeClass;
    if (lastRegion[last] == region) {
      lastRegion[last] = NONE;
    }
    classOfRegion[region] = NONE;
    freeCount[region] = 0;
    freeHead[region] = NONE;
    doubtfulHead[region] = NONE;
    doubtful[region] = null;
    hasFewerDoubts[region] = false;
    grantedTo[region] = DAEMON;
    unassigned[partOfRegion[region]]++;
  }

  /**
   * Begins to empty a region, so that another size class can have it: nothing is allocated there
   * any more, and it is unassigned when its last slot is freed. One region of a part drains at a
   * time.
   */
  public void drain(int region) {
    int part = partOfRegion[region];
    if (draining[part] != NONE) {
      throw new IllegalStateException("region " + draining[part] + " drains already");
    }
    if (usedCount[region] == 0) {
      unassign(region);
    } else {
      draining[part] = region;
      drains++;
    }
  }

  /** Gives up emptying a part's region: its free slots are given out again. */
  public void undrain(int part) {
    drains -= draining[part] == NONE ? 0 : 1;
    draining[part] = NONE;
  }

  /** Whether a region of any part is being emptied. */
  public boolean isDraining() {
    return drains > 0;
  }

  /** The region of a part that is being emptied, or {@link #NONE}. */
  public int draining(int part) {
    return draining[part];
  }

  /** How many parts the tier has. */
  public int parts() {
    return parts;
  }

  /** The part that a region is of. */
  public int partOf(int region) {
    return partOfRegion[region];
  }

  /** The part that a size class is of. */
  public int partOfClass(int sizeClass) {
    return partOfClass[sizeClass];
  }

  /** How many regions a part has. */
  public int regionsOfPart(int part) {
    return regionsOfPart[part];
  }

  /** One past the highest number that a size class can have. */
  public int classesMax() {
    return classesMax;
  }

  /** A session has ended: what was granted to it is granted to nobody. */
  public void revoke(long session) {
    for (int region = 0; region < grantedTo.length; region++) {
      if (grantedTo[region] == session) {
        grantedTo[region] = DAEMON;
      }
    }
  }

  /** The session that may write into a region, or {@link #DAEMON}. */
  public long grantedTo(int region) {
    return grantedTo[region];
  }

  /**
   * A session has mapped, or may map, a region for writing; told once for each session and region.
   */
  public void addWriter(int region, long session) {
    if (writers[region] == 0) {
      onFirstWriter.accept(region);
    }
    writers[region]++;
    writersXor[region] ^= session;
  }

  /** Has somebody told of each region that gets its first writer, before it has that one. */
  public void onFirstWriter(IntConsumer told) {
    onFirstWriter = told;
  }

  /**
   * Whether a session other than this one could write into the region. One that has ended still
   * can: its process may keep the mapping, and nobody can take it away.
   */
  public boolean isWritableByOthers(int region, long session) {
    // With one writer left, the exclusive or of all of them is that one.
    return writers[region] > 1 || (writers[region] == 1 && writersXor[region] != session);
  }

  /**
   * Somebody may write to a part of a region from now on whose slot there is another's, or will be:
   * everybody verifies what lies in the region, and slots that touch the part are doubtful.
   */
  public void doubt(int region, long offset, long bytes) {
    doubts.add(region, offset, bytes);
    addWriter(region, UNKNOWN);
    if (classOfRegion[region] == NONE) {
      return;
    }
    int slots = blockOf[region].length;
    int slotBytesOf = slotBytes[classOfRegion[region]];
    BitSet bits = doubtful[region];
    if (bits == null) {
      bits = new BitSet(slots);
      doubtful[region] = bits;
    }
    boolean hasFree = false;
    int end = (int) Math.min(slots, Math.ceilDiv(offset + bytes, slotBytesOf));
    for (int i = (int) (offset / slotBytesOf); i < end; i++) {
      bits.set(i);
      hasFree |= blockOf[region][i] == NONE;
    }
    if (hasFree) {
      linkFree(region);
    }
  }

  /** Whoever might have written there does not any more. */
  public void trust(int region, long offset, long bytes) {
    doubts.remove(region, offset, bytes);
    // Many go at once: the slots are looked at when somebody wants one.
    hasFewerDoubts[region] = true;
  }

  /** Whether there may be doubtful slots. */
  public boolean hasDoubts() {
    return doubts.size() > 0;
  }

  /** Whether somebody may still write a slot who has lost it. */
  public boolean isDoubtful(int slot) {
    int region = slot >>> indexBits;
    if (doubtful[region] == null) {
      return false;
    }
    lookAgain(region);
    return isDoubtful(region, slot & indexMask);
  }

  private boolean isDoubtful(int region, int index) {
    BitSet bits = doubtful[region];
    return bits != null && bits.get(index);
  }

  private void lookAgain(int region) {
    if (hasFewerDoubts[region]) {
      mark(region);
      linkFree(region);
    }
  }

  /** Marks the slots of a region that are doubtful. */
  private void mark(int region) {
    hasFewerDoubts[region] = false;
    doubtful[region] =
        doubts.touched(region, slotBytes[classOfRegion[region]], blockOf[region].length);
  }

  public int regionOf(int slot) {
    return slot >>> indexBits;
  }

  /** A slot's offset in its region, in bytes. */
  public long offsetOf(int slot) {
    return (long) (slot & indexMask) * slotBytes[classOfRegion[slot >>> indexBits]];
  }

  public int classOf(int slot) {
    return classOfRegion[slot >>> indexBits];
  }

  /** The block in the i-th slot of a region, or {@link #NONE}. */
  public int blockAt(int region, int index) {
    return blockOf[region][index];
  }

  /** The block in a slot, or {@link #NONE}. */
  public int blockInSlot(int slot) {
    return blockOf[slot >>> indexBits][slot & indexMask];
  }

  /** How many slots each region of a size class is cut into. */
  public int slotsPerRegion(int sizeClass) {
    return slotsPerRegion[sizeClass];
  }

  /** How many slots a region is cut into; 0 when it is not assigned. */
  public int slotsOf(int region) {
    return classOfRegion[region] == NONE ? 0 : blockOf[region].length;
  }

  /** How many slots of a region are in use. */
  public int usedOf(int region) {
    return usedCount[region];
  }

  /** The size class of a region, or {@link #NONE}. */
  public int classOfRegion(int region) {
    return classOfRegion[region];
  }

  public long regionBytes() {
    return regionBytes;
  }

  public int regions() {
    return classOfRegion.length;
  }

  public int classes() {
    return classes;
  }

  /** How many regions a size class has. */
  public int regionsOfClass(int sizeClass) {
    return regionsOfClass[sizeClass];
  }

  /** Free slots of a size class in regions that are its own. */
  public int freeOfClass(int sizeClass) {
    return freeOfClass[sizeClass];
  }

  public int slotBytes(int sizeClass) {
    return slotBytes[sizeClass];
  }

  /** How many regions of a part are of no size class. */
  public int unassignedRegions(int part) {
    return unassigned[part];
  }

  /** The most slots that there could be, of the smallest size. */
  public long slotsMax() {
    return (regionBytes / slotBytesMin) * classOfRegion.length;
  }

  public int slotsTotal() {
    return slotsTotal;
  }

  public int slotsFree() {
    return slotsFree;
  }

  public long bytesUsed() {
    return bytesUsed;
  }

  /** The bytes of a part's used slots; looks at all regions. */
  public long bytesUsed(int part) {
    long bytes = 0;
    for (int region = 0; region < classOfRegion.length; region++) {
      if (partOfRegion[region] == part && usedCount[region] > 0) {
        bytes += (long) usedCount[region] * slotBytes[classOfRegion[region]];
      }
    }
    return bytes;
  }

  public long bytesCapacity() {
    return regionBytes * classOfRegion.length;
  }

  /** Checks one of a region's lists of free slots, and counts them. */
  private int checkList(int region, int head, boolean isOfDoubtful) {
    int listed = 0;
    for (int i = head; i != NONE; i = nextFree[region][i]) {
      if (blockOf[region][i] != NONE
          || isDoubtful(region, i) != isOfDoubtful
          || ++listed > blockOf[region].length) {
        throw new IllegalStateException("free list of region " + region + " is broken at " + i);
      }
    }
    return listed;
  }

  /** Checks the structure, for tests. */
  public void checkInvariants() {
    int free = 0;
    int total = 0;
    long used = 0;
    for (int region = 0; region < classOfRegion.length; region++) {
      if (classOfRegion[region] == NONE) {
        continue;
      }
      if (partOfClass[classOfRegion[region]] != partOfRegion[region]) {
        throw new IllegalStateException("region " + region + " has a class of another part");
      }
      int listed = 0;
      listed += checkList(region, freeHead[region], false);
      listed += checkList(region, doubtfulHead[region], true);
      if (listed != freeCount[region] || listed + usedCount[region] != blockOf[region].length) {
        throw new IllegalStateException("region " + region + " miscounts its slots");
      }
      free += listed;
      total += blockOf[region].length;
      used += (long) usedCount[region] * slotBytes[classOfRegion[region]];
    }
    if (free != slotsFree || total != slotsTotal || used != bytesUsed) {
      throw new IllegalStateException(
          "slots do not add up: free "
              + free
              + "/"
              + slotsFree
              + ", total "
              + total
              + "/"
              + slotsTotal);
    }
  }
}

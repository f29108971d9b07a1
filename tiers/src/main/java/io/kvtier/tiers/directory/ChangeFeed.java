package io.kvtier.tiers.directory;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Tells the directory which blocks come to this node's memory and leave it: a ring of longs from
 * the index to the thread that announces. If the ring is full, changes are lost, and a walk over
 * all blocks makes them good. A walk goes through the same ring, so that a block that leaves during
 * a walk is not taken for present. Before {@link #open} nothing is told.
 */
public class ChangeFeed {
  /** The bits of an entry for its kind. The other bits are of the hash. */
  private static final long KIND_BITS = ~HolderTable.HASH_BITS;

  /** A block has come. */
  public static final int CAME = 1;

  /** A block has left. */
  public static final int LEFT = 2;

  /** A walk has found a block. */
  public static final int FOUND = 3;

  /** A walk is over. */
  public static final int WALKED = 4;

  private static final int SIZE = 1 << 16;

  /** A walk leaves these places to changes. */
  private static final int KEPT_FREE = SIZE / 2;

  private final AtomicLongArray ring = new AtomicLongArray(SIZE);
  private final AtomicLong written = new AtomicLong();
  private final AtomicLong read = new AtomicLong();
  private final AtomicInteger walksWanted = new AtomicInteger();
  private final Runnable bell;
  private volatile boolean isOpen;
  private volatile boolean isLost;
  private volatile boolean isHeld;

  /**
   * An empty feed.
   *
   * @param bell wakes the index, which has to begin a walk or to go on with it
   */
  public ChangeFeed(Runnable bell) {
    this.bell = bell;
  }

  // ---- the index

  /** Whether changes are told. */
  public boolean isOpen() {
    return isOpen;
  }

  /** Tells what happened to a block; false if the ring is full. */
  public boolean tell(long hash, int kind) {
    long at = written.getPlain();
    long free = SIZE - (at - read.getAcquire());
    if (free <= (kind == FOUND ? KEPT_FREE : 0)) {
      if (kind == CAME || kind == LEFT) {
        isLost = true;
      }
      return false;
    }
    ring.setPlain((int) (at & (SIZE - 1)), (hash & HolderTable.HASH_BITS) | kind);
    written.setRelease(at + 1);
    return true;
  }

  /** Whether a block that a walk finds can be told. */
  public boolean hasRoomForWalk() {
    return !isHeld && SIZE - (written.getPlain() - read.getAcquire()) > KEPT_FREE;
  }

  /** How many walks have been wanted since the start. */
  public int walksWanted() {
    return walksWanted.get();
  }

  // ---- the announcer

  /** The next entry; 0 if there is none. */
  public long poll() {
    long at = read.getPlain();
    if (at == written.getAcquire()) {
      return 0;
    }
    long entry = ring.getPlain((int) (at & (SIZE - 1)));
    // Both accesses are volatile: an index that goes to sleep either sees the space or is woken.
    read.set(at + 1);
    if (written.get() - at == SIZE - KEPT_FREE) {
      bell.run(); // a walk can go on
    }
    return entry;
  }

  /** The kind of an entry. */
  public static int kindOf(long entry) {
    return (int) (entry & KIND_BITS);
  }

  /** Begins to tell changes. A walk must follow: earlier changes were not told. */
  public void open() {
    isOpen = true;
  }

  /** Asks for a walk over all blocks, after those that were asked for before. */
  public void walk() {
    walksWanted.incrementAndGet();
    bell.run();
  }

  /** Has walks wait, or lets them go on. Changes are told nevertheless. */
  public void holdWalks(boolean isToHold) {
    if (isToHold != isHeld) {
      isHeld = isToHold;
      bell.run();
    }
  }

  /** Whether changes were lost since this was asked last. */
  public boolean takeLost() {
    boolean lost = isLost;
    if (lost) {
      isLost = false;
    }
    return lost;
  }
}

package io.kvtier.tiers.directory;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.LongPredicate;

/**
 * A table of the holders of blocks, in memory of fixed size: a cuckoo table with buckets of eight
 * entries (Pagh, Rodler, 2004; Erlingsson, Manasse, McSherry, 2006). An entry has 8 bytes: 48 bits
 * of the block's hash, and the number of a holder. A block has at most {@link #HOLDERS_MAX}
 * entries. Entries are hints: two blocks with equal 48 bits are taken for one. When the table is
 * full, a new entry takes the place of another. Not safe for several threads.
 *
 * <pre>
 * 63                                          16 15          0
 * +---------------------------------------------+-------------+
 * | the upper 48 bits of the hash               | holder      |   0: free
 * +---------------------------------------------+-------------+
 * </pre>
 */
public final class HolderTable implements AutoCloseable {
  /** The most entries of one block. */
  public static final int HOLDERS_MAX = 4;

  /** The highest number of a holder; the lowest is 1. */
  public static final int HOLDER_MAX = 0xffff;

  /** The bits of an entry that are of the hash. */
  public static final long HASH_BITS = ~0xffffL;

  private static final int BUCKET_ENTRIES = 8;
  private static final int BUCKET_BYTES = BUCKET_ENTRIES * Long.BYTES;
  private static final int MOVES_MAX = 256;
  private static final long FREE = 0;
  private static final ValueLayout.OfLong ENTRY = ValueLayout.JAVA_LONG;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment memory;
  private final int buckets;

  /** The most entries with which moves end soon at a free place. */
  private final long movesSizeMax;

  private long size;
  private long displaced;
  private long turn = 0x9E37_79B9_7F4A_7C15L;
  private int swept;

  /**
   * An empty table.
   *
   * @param bytes its memory, of which a part of a bucket stays unused
   */
  public HolderTable(long bytes) {
    buckets = Math.toIntExact(Math.max(2, bytes / BUCKET_BYTES));
    long entries = (long) buckets * BUCKET_ENTRIES;
    movesSizeMax = entries - entries / 64;
    memory = arena.allocate((long) buckets * BUCKET_BYTES, BUCKET_BYTES);
  }

  /** How many entries there are. */
  public long size() {
    return size;
  }

  /** How many entries were lost because the table was full. */
  public long displaced() {
    return displaced;
  }

  /** The memory of the table, bytes. */
  public long bytes() {
    return memory.byteSize();
  }

  /** How many buckets there are, for {@link #sweep}. */
  public int buckets() {
    return buckets;
  }

  // ---- entries

  private static long mix(long hash, long seed) {
    long mixed = (hash ^ seed) * 0xBF58_476D_1CE4_E5B9L;
    mixed = (mixed ^ (mixed >>> 29)) * 0x94D0_49BB_1331_11EBL;
    return mixed ^ (mixed >>> 32);
  }

  private int bucket(long hash, long seed) {
    return (int) Math.unsignedMultiplyHigh(mix(hash, seed), buckets);
  }

  private int first(long hash) {
    return bucket(hash, 0x2545_F491_4F6C_DD1DL);
  }

  /** The second bucket of a block, never the first one: every entry has two places. */
  private int second(long hash) {
    int second = bucket(hash, 0xD6E8_FEB8_6659_FD93L);
    return second == first(hash) ? (second + 1) % buckets : second;
  }

  private long get(int bucket, int i) {
    return memory.get(ENTRY, (long) bucket * BUCKET_BYTES + (long) i * Long.BYTES);
  }

  private void set(int bucket, int i, long entry) {
    memory.set(ENTRY, (long) bucket * BUCKET_BYTES + (long) i * Long.BYTES, entry);
  }

  /**
   * Notes that a holder has a block.
   *
   * @param isDead says of an entry that its holder has gone: the new one may take its place
   * @return false if the block has the most holders already; the new one is not noted
   */
  public boolean put(long hash, int holder, LongPredicate isDead) {
    if (holder < 1 || holder > HOLDER_MAX) {
      throw new IllegalArgumentException("holder " + holder + ", expected 1 to " + HOLDER_MAX);
    }
    long high = hash & HASH_BITS;
    long entry = high | holder;
    int first = first(high);
    int second = second(high);
    int holders = 0;
    for (int i = 0; i < BUCKET_ENTRIES; i++) {
      long one = get(first, i);
      long two = get(second, i);
      if (one == entry || two == entry) {
        return true;
      }
      holders += isOf(one, high) ? 1 : 0;
      holders += isOf(two, high) ? 1 : 0;
    }
    if (holders >= HOLDERS_MAX) {
      return replace(first, entry, isDead) || replace(second, entry, isDead);
    }
    if (place(first, entry) || place(second, entry)) {
      size++;
    } else if (size >= movesSizeMax) {
      displace((turn & 1) == 0 ? first : second, entry);
    } else {
      size++;
      move((turn & 1) == 0 ? first : second, entry);
    }
    return true;
  }

  /** Puts an entry in the place of a dead one of the same block. */
  private boolean replace(int bucket, long entry, LongPredicate isDead) {
    for (int i = 0; i < BUCKET_ENTRIES; i++) {
      long old = get(bucket, i);
      if (isOf(old, entry & HASH_BITS) && isDead.test(old)) {
        set(bucket, i, entry);
        return true;
      }
    }
    return false;
  }

  private static boolean isOf(long entry, long high) {
    return entry != FREE && (entry & HASH_BITS) == high;
  }

  private boolean place(int bucket, long entry) {
    for (int i = 0; i < BUCKET_ENTRIES; i++) {
      if (get(bucket, i) == FREE) {
        set(bucket, i, entry);
        return true;
      }
    }
    return false;
  }

  /** Puts an entry in the place of another one, which is lost. */
  private void displace(int bucket, long entry) {
    turn = mix(turn, 1);
    set(bucket, (int) (turn >>> 1) & (BUCKET_ENTRIES - 1), entry);
    displaced++;
  }

  /** Moves entries to their other buckets until one finds a free place; the last one is lost. */
  private void move(int bucket, long entry) {
    int at = bucket;
    long homeless = entry;
    for (int moves = 0; moves < MOVES_MAX; moves++) {
      turn = mix(turn, moves + 1);
      int i = (int) (turn & (BUCKET_ENTRIES - 1));
      long next = get(at, i);
      set(at, i, homeless);
      homeless = next;
      long high = homeless & HASH_BITS;
      at = at == first(high) ? second(high) : first(high);
      if (place(at, homeless)) {
        return;
      }
    }
    size--;
    displaced++;
  }

  /** Forgets that a holder has a block; returns whether that was noted. */
  public boolean remove(long hash, int holder) {
    long high = hash & HASH_BITS;
    return remove(first(high), high | holder) || remove(second(high), high | holder);
  }

  private boolean remove(int bucket, long entry) {
    for (int i = 0; i < BUCKET_ENTRIES; i++) {
      if (get(bucket, i) == entry) {
        set(bucket, i, FREE);
        size--;
        return true;
      }
    }
    return false;
  }

  /**
   * Finds the holders of a block.
   *
   * @param holders gets their numbers; of length {@link #HOLDERS_MAX} or more
   * @return how many there are
   */
  public int find(long hash, int[] holders) {
    long high = hash & HASH_BITS;
    int first = first(high);
    int second = second(high);
    int count = 0;
    for (int i = 0; i < BUCKET_ENTRIES; i++) {
      long one = get(first, i);
      long two = get(second, i);
      if (isOf(one, high)) {
        holders[count++] = (int) (one & HOLDER_MAX);
      }
      if (isOf(two, high)) {
        holders[count++] = (int) (two & HOLDER_MAX);
      }
    }
    return count;
  }

  /**
   * Looks at the next buckets, and removes entries.
   *
   * @param isToRemove says so of an entry
   * @return whether the last bucket was among them: the next call begins at the first one
   */
  public boolean sweep(int count, LongPredicate isToRemove) {
    for (int left = Math.min(count, buckets); left > 0; left--) {
      for (int i = 0; i < BUCKET_ENTRIES; i++) {
        long entry = get(swept, i);
        if (entry != FREE && isToRemove.test(entry)) {
          set(swept, i, FREE);
          size--;
        }
      }
      swept++;
      if (swept == buckets) {
        swept = 0;
        return true;
      }
    }
    return false;
  }

  /** The holder of an entry, as {@link #sweep} shows it. */
  public static int holderOf(long entry) {
    return (int) (entry & HOLDER_MAX);
  }

  @Override
  public void close() {
    arena.close();
  }
}

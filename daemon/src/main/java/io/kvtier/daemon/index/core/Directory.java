package io.kvtier.daemon.index.core;

import io.kvtier.policies.BitMixer;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.linux.PrivateMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Every block the daemon knows, in a fixed amount of memory outside the heap: a hash table of
 * chains through records of 64 bytes, one cache line each. Confined to the index. A record's number
 * is the block's id everywhere else.
 *
 * <pre>
 *    0  key, 32 bytes, zero-padded
 *   32  u32 namespace id  36  u16 group  38  u8 key bytes  39  u8 states, four bits a tier
 *   40  i32 host slot     44  i32 SSD slot (one a tier)
 *   48  u32 CRC32C        52  u16 uses   54  u16 flags
 *   56  i32 holds         60  i32 next in chain, or next free record
 * </pre>
 *
 * <p>Beside them stands what policies know of a block: 16 bytes.
 *
 * <pre>
 *    0  u64 fingerprint of the block before it, 0 when unknown   8  i32 depth
 *   12  i32 hits since it came into the host tier
 * </pre>
 *
 * <p>And four bytes that say which record was the block before it, when that was known: a hint, as
 * records are used again.
 */
public final class Directory implements AutoCloseable {
  /** No block. */
  public static final int NONE = -1;

  /** Nobody knows of the block before a block whether it was ever here. */
  public static final int UNSEEN = -2;

  static final int FLAG_LINKED = 1;
  static final int FLAG_USED = 2;

  /**
   * One flag a tier from here on: the tier counts the block's copy among those that could leave.
   */
  static final int FLAG_EVICTABLE = 4;

  /** The block is an object, too, as far as is known. */
  public static final int FLAG_OBJECT = 16;

  /** The block is on its way to an object. */
  public static final int FLAG_UPLOADING = 32;

  /** The block is on its way from an object, or looked for there. */
  public static final int FLAG_FETCHING = 64;

  /** The block was deleted while it was on its way to an object, which is to go, too. */
  public static final int FLAG_DELETED = 128;

  /** The object store would not have the block a short while ago, and is not asked again yet. */
  public static final int FLAG_REFUSED = 256;

  /** All bytes of the host copy are in its slot; its checksum is still to be made. */
  public static final int FLAG_ARRIVED = 512;

  /** The block's copy on SSD is counted among those that could leave, and stand nowhere else. */
  public static final int FLAG_SSD_ONLY = 1024;

  /** The block's copy on SSD was found damaged, and its object is read instead. */
  public static final int FLAG_DAMAGED = 2048;

  /** The checksum of the host copy is being made again, or is to be. */
  public static final int FLAG_AUDITED = 4096;

  /** An earlier daemon left the host copy, and nobody has made its checksum since. */
  public static final int FLAG_TAKEN_OVER = 8192;

  /** The copy on SSD stands outside of the order in which copies leave, as its device is fenced. */
  public static final int FLAG_ASIDE = 16384;

  /** Hears of everything that decides whether a copy could leave its tier. */
  @FunctionalInterface
  public interface Watcher {
    /** A block's state in a tier, or whether it is used or held, has changed. */
    void changed(int block);
  }

  /** How many keys {@link #approach} takes at most. */
  public static final int APPROACHED_MAX = 32;

  /** The bytes of one record. */
  public static final int RECORD_BYTES = 64;

  private static final int KEY_WORDS = Protocol.KEY_BYTES_MAX / Long.BYTES;
  private static final int NAMESPACE = 32;
  private static final int GROUP = 36;
  private static final int KEY_BYTES = 38;
  private static final int STATES = 39;
  private static final int HOST_SLOT = 40;
  private static final int SSD_SLOT = 44;
  private static final int CHECKSUM = 48;
  private static final int USES = 52;
  private static final int FLAGS = 54;
  private static final int HOLDS = 56;
  private static final int NEXT = 60;

  private static final int LINEAGE_BYTES = 16;
  private static final int PARENT_BYTES = 4;
  private static final int DEPTH = 8;
  private static final int HITS = 12;

  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfLong UNALIGNED = ValueLayout.JAVA_LONG_UNALIGNED;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT;
  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment records;
  private final MemorySegment lineage;
  private final MemorySegment parents;
  private final MemorySegment buckets;
  private final AnnotationTable annotations;
  private final int bucketMask;
  private final int blocksMax;
  private final long seed;
  private Watcher watcher = block -> {};
  private long[] fingerprints = {};
  private byte[] tenants = {};
  private final int[] recordsOfTenant = new int[Byte.MAX_VALUE];
  private int[] recordsOf = new int[64];
  private int freeHead = NONE;
  private int highWater;
  private int size;

  // The keys that were approached, their hashes, and what was read for them.
  private final long[] approachedWords = new long[KEY_WORDS * APPROACHED_MAX];
  private final int[] approachedHashes = new int[APPROACHED_MAX];
  private final int[] approached = new int[APPROACHED_MAX];

  // The key being looked for, padded to four words.
  private long key0;
  private long key1;
  private long key2;
  private long key3;

  /** An empty directory whose blocks have no annotations. */
  public Directory(int blocksMax, long seed) throws IOException {
    this(blocksMax, seed, 0);
  }

  /**
   * An empty directory.
   *
   * @param blocksMax the most records; memory is taken from the system as they come into use
   * @param seed a secret that the hash is mixed with, so that nobody outside can choose keys that
   *     collide
   * @param annotationBytes the most memory for annotations
   */
  public Directory(int blocksMax, long seed, long annotationBytes) throws IOException {
    this.blocksMax = blocksMax;
    this.seed = seed;
    int bucketCount = bucketsFor(blocksMax);
    bucketMask = bucketCount - 1;
    records = PrivateMemory.map((long) blocksMax * RECORD_BYTES, arena);
    lineage = PrivateMemory.map((long) blocksMax * LINEAGE_BYTES, arena);
    parents = PrivateMemory.map((long) blocksMax * PARENT_BYTES, arena);
    buckets = PrivateMemory.map(bucketCount * 4L, arena);
    annotations =
        new AnnotationTable(
            PrivateMemory.map(AnnotationTable.headBytes(blocksMax), arena),
            annotationBytes == 0 ? MemorySegment.NULL : PrivateMemory.map(annotationBytes, arena));
  }

  private static int bucketsFor(int blocksMax) {
    return Integer.highestOneBit(Math.max(64, blocksMax) - 1) << 1;
  }

  /** What {@link #metadataBytes} of one for that many blocks is, but for annotations. */
  public static long metadataBytesFor(int blocksMax) {
    return (long) blocksMax * (RECORD_BYTES + LINEAGE_BYTES + PARENT_BYTES)
        + bucketsFor(blocksMax) * 4L
        + AnnotationTable.headBytes(blocksMax);
  }

  /** Memory of the directory when it is full, in bytes. */
  public long metadataBytes() {
    return records.byteSize()
        + lineage.byteSize()
        + parents.byteSize()
        + buckets.byteSize()
        + annotations.metadataBytes();
  }

  public int size() {
    return size;
  }

  /** What is kept with the blocks. */
  public AnnotationTable annotations() {
    return annotations;
  }

  public int blocksMax() {
    return blocksMax;
  }

  /** One past the highest id ever used. */
  public int highWater() {
    return highWater;
  }

  /**
   * The block with a key, or {@link #NONE}.
   *
   * @param source where the key's bytes are; the span up to the next multiple of 8 must be readable
   */
  public int find(int namespaceId, int group, int keyBytes, MemorySegment source, long offset) {
    loadKey(keyBytes, source, offset);
    return findSought(hashSought(namespaceId, group, keyBytes), namespaceId, group, keyBytes);
  }

  private int findSought(int hash, int namespaceId, int group, int keyBytes) {
    int block = bucketHead(hash);
    while (block != NONE && !matches(block, namespaceId, group, keyBytes)) {
      block = records.get(INT, at(block) + NEXT) - 1;
    }
    return block;
  }

  /**
   * Takes several keys, and reads ahead of {@link #findApproached} what that will have to read. A
   * large directory lies in memory that is far away, and one find waits for it twice; here the
   * waits for all keys overlap. The key that is sought is none, then.
   *
   * @param stride from one key to the next
   * @param count how many keys, at most {@link #APPROACHED_MAX}
   */
  public void approach(
      int namespaceId,
      int group,
      int keyBytes,
      MemorySegment source,
      long offset,
      long stride,
      int count) {
    for (int i = 0; i < count; i++) {
      loadKey(keyBytes, source, offset + i * stride);
      copySought(approachedWords, KEY_WORDS * i);
      approachedHashes[i] = hashSought(namespaceId, group, keyBytes);
    }
    // Loops of few instructions each: a processor is at several of their rounds at a time.
    for (int i = 0; i < count; i++) {
      approached[i] = bucketHead(approachedHashes[i]);
    }
    for (int i = 0; i < count; i++) {
      if (approached[i] != NONE) {
        // Written down, so that the compiler does not leave the reading out.
        approached[i] = records.get(INT, at(approached[i]) + NEXT);
      }
    }
  }

  /**
   * As {@link #find}, for one of the keys that were approached last.
   *
   * @param i which, from 0
   */
  public int findApproached(int namespaceId, int group, int keyBytes, int i) {
    key0 = approachedWords[KEY_WORDS * i];
    key1 = approachedWords[KEY_WORDS * i + 1];
    key2 = approachedWords[KEY_WORDS * i + 2];
    key3 = approachedWords[KEY_WORDS * i + 3];
    return findSought(approachedHashes[i], namespaceId, group, keyBytes);
  }

  /** As {@link #find}, for a batch whose keys are all looked for in their order. */
  public int findInOrder(KeyBatch keys, int i) {
    int place = i % APPROACHED_MAX;
    if (place == 0) {
      approach(
          keys.namespaceId,
          keys.group,
          keys.keyBytes,
          keys.segment,
          keys.key(i),
          keys.keyStride,
          Math.min(APPROACHED_MAX, keys.count - i));
    }
    return findApproached(keys.namespaceId, keys.group, keys.keyBytes, place);
  }

  /** The block with one key of a batch, or {@link #NONE}. */
  public int find(KeyBatch keys, int i) {
    return find(keys.namespaceId, keys.group, keys.keyBytes, keys.segment, keys.key(i));
  }

  /**
   * Adds the block with the key of the last {@link #find}, which found none.
   *
   * @return its id, or {@link #NONE} when the directory is full
   */
  public int insertSought(int namespaceId, int group, int keyBytes) {
    int block;
    if (freeHead != NONE) {
      block = freeHead;
      freeHead = records.get(INT, at(block) + NEXT) - 1;
    } else if (highWater < blocksMax) {
      block = highWater++;
    } else {
      return NONE;
    }
    size++;
    count(namespaceId, 1);
    long at = at(block);
    records.set(LONG, at, key0);
    records.set(LONG, at + 8, key1);
    records.set(LONG, at + 16, key2);
    records.set(LONG, at + 24, key3);
    records.set(INT, at + NAMESPACE, namespaceId);
    records.set(SHORT, at + GROUP, (short) group);
    records.set(BYTE, at + KEY_BYTES, (byte) keyBytes);
    records.set(BYTE, at + STATES, (byte) 0);
    records.set(INT, at + HOST_SLOT, NONE);
    records.set(INT, at + SSD_SLOT, NONE);
    records.set(INT, at + CHECKSUM, 0);
    records.set(SHORT, at + USES, (short) 0);
    records.set(SHORT, at + FLAGS, (short) (FLAG_LINKED | FLAG_USED));
    records.set(INT, at + HOLDS, 0);
    long bucket = 4L * (hashSought(namespaceId, group, keyBytes) & bucketMask);
    records.set(INT, at + NEXT, buckets.get(INT, bucket));
    buckets.set(INT, bucket, block + 1);
    return block;
  }

  /**
   * Takes a block out of sight: its key can be inserted again, its record lives on until {@link
   * #free}. The key that is sought stays as it is.
   */
  public void unlink(int block) {
    long at = at(block);
    int hash =
        hash(
            namespaceId(block),
            group(block),
            keyBytes(block),
            records.get(LONG, at),
            records.get(LONG, at + 8),
            records.get(LONG, at + 16),
            records.get(LONG, at + 24));
    long bucket = 4L * (hash & bucketMask);
    int next = records.get(INT, at + NEXT);
    int walk = buckets.get(INT, bucket) - 1;
    if (walk == block) {
      buckets.set(INT, bucket, next);
    } else {
      while (walk != NONE) {
        int following = records.get(INT, at(walk) + NEXT) - 1;
        if (following == block) {
          records.set(INT, at(walk) + NEXT, next);
          break;
        }
        walk = following;
      }
      if (walk == NONE) {
        throw new IllegalStateException("block " + block + " is not in its chain");
      }
    }
    records.set(SHORT, at + FLAGS, (short) (records.get(SHORT, at + FLAGS) & ~FLAG_LINKED));
  }

  /** Recycles an unlinked record. */
  public void free(int block) {
    long at = at(block);
    if ((records.get(SHORT, at + FLAGS) & (FLAG_USED | FLAG_LINKED)) != FLAG_USED) {
      throw new IllegalStateException("block " + block + " is free or still linked");
    }
    count(namespaceId(block), -1);
    annotations.drop(block);
    records.set(SHORT, at + FLAGS, (short) 0);
    records.set(INT, at + NEXT, freeHead + 1);
    freeHead = block;
    size--;
  }

  private void count(int namespaceId, int more) {
    if (namespaceId >= recordsOf.length) {
      recordsOf = Arrays.copyOf(recordsOf, Math.max(64, 2 * namespaceId));
    }
    recordsOf[namespaceId] += more;
    recordsOfTenant[namespaceId < tenants.length ? tenants[namespaceId] : 0] += more;
  }

  /** How many records the namespaces of a tenant have, those that are unlinked included. */
  public int recordsOfTenant(int tenant) {
    return recordsOfTenant[tenant];
  }

  /** How many records a namespace has, those that are unlinked included. */
  public int recordsOf(int namespaceId) {
    return namespaceId < recordsOf.length ? recordsOf[namespaceId] : 0;
  }

  private void loadKey(int keyBytes, MemorySegment source, long offset) {
    key0 = source.get(LONG, offset);
    key1 = keyBytes > 8 ? source.get(LONG, offset + 8) : 0;
    key2 = keyBytes > 16 ? source.get(LONG, offset + 16) : 0;
    key3 = keyBytes > 24 ? source.get(LONG, offset + 24) : 0;
    int tail = keyBytes & 7;
    if (tail != 0) {
      long mask = (1L << (tail * 8)) - 1;
      switch ((keyBytes - 1) >>> 3) {
        case 0 -> key0 &= mask;
        case 1 -> key1 &= mask;
        case 2 -> key2 &= mask;
        default -> key3 &= mask;
      }
    }
  }

  /** The hash of the key that was sought last. */
  public int soughtHash(int namespaceId, int group, int keyBytes) {
    return hashSought(namespaceId, group, keyBytes);
  }

  /**
   * The hash of a key of {@value Protocol#KEY_BYTES_MAX} bytes, zero-padded, that stands in words.
   */
  public int hashOf(int namespaceId, int group, int keyBytes, long[] words, int at) {
    return hash(
        namespaceId, group, keyBytes, words[at], words[at + 1], words[at + 2], words[at + 3]);
  }

  /** Whether such a key is the one that was sought last. */
  public boolean isSought(long[] words, int at) {
    return words[at] == key0
        && words[at + 1] == key1
        && words[at + 2] == key2
        && words[at + 3] == key3;
  }

  /** Copies the key that was sought last, zero-padded. */
  public void copySought(long[] words, int at) {
    words[at] = key0;
    words[at + 1] = key1;
    words[at + 2] = key2;
    words[at + 3] = key3;
  }

  private int hashSought(int namespaceId, int group, int keyBytes) {
    return hash(namespaceId, group, keyBytes, key0, key1, key2, key3);
  }

  private int hash(
      int namespaceId, int group, int keyBytes, long word0, long word1, long word2, long word3) {
    long h = seed ^ ((long) namespaceId << 32 | (long) group << 8 | keyBytes);
    h = BitMixer.mix(h ^ word0);
    h = BitMixer.mix(h ^ word1);
    h = BitMixer.mix(h ^ word2);
    h = BitMixer.mix(h ^ word3);
    return (int) (h ^ h >>> 32);
  }

  private int bucketHead(int hash) {
    return buckets.get(INT, 4L * (hash & bucketMask)) - 1;
  }

  private boolean matches(int block, int namespaceId, int group, int keyBytes) {
    long at = at(block);
    return records.get(LONG, at) == key0
        && records.get(LONG, at + 8) == key1
        && records.get(LONG, at + 16) == key2
        && records.get(LONG, at + 24) == key3
        && records.get(INT, at + NAMESPACE) == namespaceId
        && records.get(SHORT, at + GROUP) == (short) group
        && records.get(BYTE, at + KEY_BYTES) == keyBytes;
  }

  private static long at(int block) {
    return (long) block * RECORD_BYTES;
  }

  /** Copies a block's key, zero-padded to 32 bytes. */
  public void copyKey(int block, byte[] target) {
    MemorySegment.copy(records, BYTE, at(block), target, 0, Protocol.KEY_BYTES_MAX);
  }

  /** Copies the key of the last {@link #find}, zero-padded to 32 bytes. */
  public void copySought(byte[] target) {
    MemorySegment copy = MemorySegment.ofArray(target);
    copy.set(UNALIGNED, 0, key0);
    copy.set(UNALIGNED, 8, key1);
    copy.set(UNALIGNED, 16, key2);
    copy.set(UNALIGNED, 24, key3);
  }

  /** Well-mixed bits of a block's key, for policies; never 0. */
  public long fingerprint(int block) {
    long at = at(block);
    return fingerprint(
        namespaceId(block), group(block), records.get(LONG, at), records.get(LONG, at + 8));
  }

  /** The {@link #fingerprint} of the key of the last {@link #find}, found or not. */
  public long soughtFingerprint(int namespaceId, int group) {
    return fingerprint(namespaceId, group, key0, key1);
  }

  private long fingerprint(int namespaceId, int group, long first, long second) {
    long namespace = namespaceId < fingerprints.length ? fingerprints[namespaceId] : namespaceId;
    long mixed = BitMixer.mix(first ^ BitMixer.mix(second ^ ((long) group << 32 ^ namespace)));
    return mixed == 0 ? 1 : mixed;
  }

  /**
   * Sets what is to be known of a namespace that has no records yet.
   *
   * @param fingerprint stands for it in those of blocks, which are the same in all starts
   */
  public void setNamespace(int namespaceId, long fingerprint, int tenant) {
    if (namespaceId >= fingerprints.length) {
      fingerprints = Arrays.copyOf(fingerprints, Math.max(64, 2 * namespaceId));
      tenants = Arrays.copyOf(tenants, Math.max(64, 2 * namespaceId));
    }
    fingerprints[namespaceId] = fingerprint;
    tenants[namespaceId] = (byte) tenant;
  }

  /** Notes where a block stands in its sequence, behind a block of which there is no record. */
  public void setLineage(int block, int depth, long parent) {
    setLineage(block, depth, parent, NONE);
  }

  /** The same, behind a block of which there is one; {@link #NONE}: there is none. */
  public void setLineage(int block, int depth, long parent, int parentBlock) {
    lineage.set(LONG, (long) block * LINEAGE_BYTES, parent);
    lineage.set(INT, (long) block * LINEAGE_BYTES + DEPTH, depth);
    parents.set(INT, (long) block * PARENT_BYTES, parentBlock + 1);
  }

  /**
   * The block before a block in its sequence: its id, {@link #NONE} when it was here and is not any
   * more, {@link #UNSEEN} when nobody saw it here. Another block that came to the same record, and
   * to the same fingerprint, would be taken for it: only the order in which blocks leave goes by
   * this.
   */
  public int parentBlock(int block) {
    int hint = parents.get(INT, (long) block * PARENT_BYTES) - 1;
    if (hint == NONE) {
      return UNSEEN;
    }
    return isLinked(hint) && fingerprint(hint) == parent(block) ? hint : NONE;
  }

  /** How often the block was used since it came into the host tier. */
  public int hits(int block) {
    return lineage.get(INT, (long) block * LINEAGE_BYTES + HITS);
  }

  public void clearHits(int block) {
    lineage.set(INT, (long) block * LINEAGE_BYTES + HITS, 0);
  }

  /** Counts a use; returns the new count. */
  public int addHit(int block) {
    int hits = Math.min(hits(block), Integer.MAX_VALUE - 1) + 1;
    lineage.set(INT, (long) block * LINEAGE_BYTES + HITS, hits);
    return hits;
  }

  /** The place of a block in its sequence, from 0. */
  public int depth(int block) {
    return lineage.get(INT, (long) block * LINEAGE_BYTES + DEPTH);
  }

  /** The fingerprint of the block before it in its sequence, 0 when unknown. */
  public long parent(int block) {
    return lineage.get(LONG, (long) block * LINEAGE_BYTES);
  }

  public int namespaceId(int block) {
    return records.get(INT, at(block) + NAMESPACE);
  }

  public int group(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + GROUP));
  }

  public int keyBytes(int block) {
    return records.get(BYTE, at(block) + KEY_BYTES);
  }

  public CopyState state(int tier, int block) {
    return CopyState.of(records.get(BYTE, at(block) + STATES) >>> (4 * tier) & 15);
  }

  /** Whether the block is resident in the host tier, and there is nothing of it in the other. */
  public boolean isOnHostAlone(int block) {
    return records.get(BYTE, at(block) + STATES) == CopyState.RESIDENT.code();
  }

  /** Whether there is nothing of the block in any tier. */
  public boolean isNowhere(int block) {
    return records.get(BYTE, at(block) + STATES) == CopyState.NONE.code();
  }

  public void setState(int tier, int block, CopyState next) {
    CopyState now = state(tier, block);
    if (!now.canBecome(next)) {
      throw new IllegalStateException(
          "the copy of block "
              + block
              + " in tier "
              + tier
              + " can't go from "
              + now
              + " to "
              + next);
    }
    int others = records.get(BYTE, at(block) + STATES) & ~(15 << (4 * tier));
    records.set(BYTE, at(block) + STATES, (byte) (others | next.code() << (4 * tier)));
    watcher.changed(block);
  }

  public int slot(int tier, int block) {
    return records.get(INT, at(block) + HOST_SLOT + 4L * tier);
  }

  public void setSlot(int tier, int block, int slot) {
    records.set(INT, at(block) + HOST_SLOT + 4L * tier, slot);
  }

  public int checksum(int block) {
    return records.get(INT, at(block) + CHECKSUM);
  }

  public void setChecksum(int block, int checksum) {
    records.set(INT, at(block) + CHECKSUM, checksum);
  }

  /** How many of the daemon's own doings need the block: transfers, and what waits for one. */
  public int uses(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + USES));
  }

  public void addUses(int block, int delta) {
    int uses = uses(block) + delta;
    if (uses < 0 || uses > 0xffff) {
      throw new IllegalStateException("block " + block + " would have " + uses + " uses");
    }
    records.set(SHORT, at(block) + USES, (short) uses);
    if (uses == 0 || uses == delta) {
      watcher.changed(block);
    }
  }

  /** How many leases and pins clients hold on the block. */
  public int holds(int block) {
    return records.get(INT, at(block) + HOLDS);
  }

  public void addHolds(int block, int delta) {
    int holds = holds(block) + delta;
    if (holds < 0) {
      throw new IllegalStateException("block " + block + " would have " + holds + " holds");
    }
    records.set(INT, at(block) + HOLDS, holds);
    if (holds == 0 || holds == delta) {
      watcher.changed(block);
    }
  }

  /** Sets who is told of changes. */
  public void watch(Watcher told) {
    watcher = told;
  }

  public boolean isCountedEvictable(int tier, int block) {
    return (records.get(SHORT, at(block) + FLAGS) & FLAG_EVICTABLE << tier) != 0;
  }

  public void countEvictable(int tier, int block, boolean evictable) {
    int flag = FLAG_EVICTABLE << tier;
    int flags = records.get(SHORT, at(block) + FLAGS);
    records.set(SHORT, at(block) + FLAGS, (short) (evictable ? flags | flag : flags & ~flag));
  }

  /** Whether a flag is set. */
  public boolean has(int flag, int block) {
    return (records.get(SHORT, at(block) + FLAGS) & flag) != 0;
  }

  /** Sets or clears a flag. */
  public void set(int flag, int block, boolean is) {
    int flags = records.get(SHORT, at(block) + FLAGS);
    records.set(SHORT, at(block) + FLAGS, (short) (is ? flags | flag : flags & ~flag));
  }

  /** Whether the block can be found by its key. */
  public boolean isLinked(int block) {
    return (records.get(SHORT, at(block) + FLAGS) & FLAG_LINKED) != 0;
  }

  /** Whether the record is a block's at all. */
  public boolean isUsed(int block) {
    return records.get(SHORT, at(block) + FLAGS) != 0;
  }

  /** Checks the structure, for tests. */
  public void checkInvariants() {
    int linked = 0;
    for (int bucket = 0; bucket <= bucketMask; bucket++) {
      for (int block = buckets.get(INT, 4L * bucket) - 1;
          block != NONE;
          block = records.get(INT, at(block) + NEXT) - 1) {
        if (!isLinked(block) || ++linked > size) {
          throw new IllegalStateException(
              "chain of bucket " + bucket + " is broken at block " + block);
        }
        for (int later = records.get(INT, at(block) + NEXT) - 1;
            later != NONE;
            later = records.get(INT, at(later) + NEXT) - 1) {
          if (hasSameKey(block, later)) {
            throw new IllegalStateException("blocks " + block + " and " + later + " have one key");
          }
        }
      }
    }
    int used = 0;
    int linkedFlags = 0;
    for (int block = 0; block < highWater; block++) {
      used += isUsed(block) ? 1 : 0;
      linkedFlags += isLinked(block) ? 1 : 0;
    }
    if (used != size || linked != linkedFlags) {
      throw new IllegalStateException(
          "directory counts " + size + " blocks, found " + used + ", linked " + linked);
    }
  }

  private boolean hasSameKey(int block, int other) {
    return MemorySegment.mismatch(
            records, at(block), at(block) + STATES, records, at(other), at(other) + STATES)
        < 0;
  }

  @Override
  public void close() {
    arena.close();
  }
}

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
 * Every block the daemon knows: finds records by their keys, in a hash table of chains through the
 * records, and hands out records. Confined to the index.
 */
public final class Directory extends BlockRecords implements AutoCloseable {
  /** How many keys {@link #approach} takes at most. */
  public static final int APPROACHED_MAX = 32;

  private static final int KEY_WORDS = Protocol.KEY_BYTES_MAX / Long.BYTES;
  private static final ValueLayout.OfLong UNALIGNED = ValueLayout.JAVA_LONG_UNALIGNED;

  private final Arena arena;
  private final MemorySegment buckets;
  private final AnnotationTable annotations;
  private final RetentionTable retentions;
  private final long copyBytes;
  private final int bucketMask;
  private final int blocksMax;
  private final long seed;
  private byte[] tenants = {};
  private long[] blockBytes = {};
  private final int[] recordsOfTenant = new int[Byte.MAX_VALUE];
  private final long[] pushedOfTenant = new long[Byte.MAX_VALUE];
  private int[] recordsOf = new int[64];
  private int freeHead = NONE;
  private int highWater;
  private int size;

  // The keys that were approached, their hashes, and the first records of their chains.
  private final long[] approachedWords = new long[KEY_WORDS * APPROACHED_MAX];
  private final int[] approachedHashes = new int[APPROACHED_MAX];
  private final int[] approached = new int[APPROACHED_MAX];

  // The key being looked for, padded to four words.
  private long key0;
  private long key1;
  private long key2;
  private long key3;

  /** An empty directory for two tiers, whose blocks have no annotations. */
  public Directory(int blocksMax, long seed) throws IOException {
    this(blocksMax, seed, 0, 2);
  }

  /**
   * An empty directory.
   *
   * @param blocksMax the most records; memory is taken from the system as they come into use
   * @param seed a secret that the hash is mixed with, so that no client can choose keys that
   *     collide
   * @param annotationBytes the most memory for annotations
   * @param tiers how many resident tiers there are
   */
  public Directory(int blocksMax, long seed, long annotationBytes, int tiers) throws IOException {
    this(blocksMax, seed, annotationBytes, tiers, Arena.ofShared());
  }

  private Directory(int blocksMax, long seed, long annotationBytes, int tiers, Arena arena)
      throws IOException {
    super(
        PrivateMemory.map((long) blocksMax * RECORD_BYTES, arena),
        PrivateMemory.map((long) blocksMax * PARENT_BYTES, arena),
        new CopyTable(PrivateMemory.map(CopyTable.bytesFor(blocksMax, tiers), arena), tiers));
    this.arena = arena;
    this.blocksMax = blocksMax;
    this.seed = seed;
    int bucketCount = bucketsFor(blocksMax);
    bucketMask = bucketCount - 1;
    copyBytes = CopyTable.bytesFor(blocksMax, tiers);
    buckets = PrivateMemory.map(bucketCount * 4L, arena);
    annotations =
        new AnnotationTable(
            PrivateMemory.map(AnnotationTable.headBytes(blocksMax), arena),
            annotationBytes == 0 ? MemorySegment.NULL : PrivateMemory.map(annotationBytes, arena));
    retentions = new RetentionTable(PrivateMemory.map(RetentionTable.bytesFor(blocksMax), arena));
  }

  private static int bucketsFor(int blocksMax) {
    return Integer.highestOneBit(Math.max(64, blocksMax) - 1) << 1;
  }

  /** The {@link #metadataBytes} of a directory for a number of blocks, without annotations. */
  public static long metadataBytesFor(int blocksMax, int tiers) {
    return (long) blocksMax * (RECORD_BYTES + PARENT_BYTES)
        + CopyTable.bytesFor(blocksMax, tiers)
        + bucketsFor(blocksMax) * 4L
        + AnnotationTable.headBytes(blocksMax)
        + RetentionTable.metadataBytesFor(blocksMax);
  }

  /** Memory of the directory when it is full, in bytes. */
  public long metadataBytes() {
    return (long) blocksMax * (RECORD_BYTES + PARENT_BYTES)
        + copyBytes
        + buckets.byteSize()
        + annotations.metadataBytes()
        + retentions.metadataBytes();
  }

  public int size() {
    return size;
  }

  /** The annotations of the blocks. */
  public AnnotationTable annotations() {
    return annotations;
  }

  /** The blocks that clients retain. */
  public RetentionTable retentions() {
    return retentions;
  }

  /** A client retains a block until a time, unless it is retained for longer already. */
  public void retain(int block, long endNs) {
    if (has(FLAG_RETAINED, block)) {
      retentions.prolong(block, endNs);
      return;
    }
    int namespaceId = namespaceId(block);
    retentions.add(block, tenants[namespaceId], blockBytes[namespaceId], endNs);
    set(FLAG_RETAINED, block, true);
    copies.changed(block);
  }

  /** A block is not retained any more. */
  public void endRetention(int block) {
    int namespaceId = namespaceId(block);
    retentions.remove(block, tenants[namespaceId], blockBytes[namespaceId]);
    set(FLAG_RETAINED, block, false);
    copies.changed(block);
  }

  /** Another node pushes a block: it counts among the pushed ones of its tenant. */
  public void beginPushed(int block) {
    set(FLAG_PUSHED, block, true);
    int namespaceId = namespaceId(block);
    pushedOfTenant[tenants[namespaceId]] += blockBytes[namespaceId];
  }

  /** A block was used here, or has left the first tier: it no longer counts as pushed. */
  public void endPushed(int block) {
    if (has(FLAG_PUSHED, block)) {
      set(FLAG_PUSHED, block, false);
      int namespaceId = namespaceId(block);
      pushedOfTenant[tenants[namespaceId]] -= blockBytes[namespaceId];
    }
  }

  /** The bytes of a tenant's blocks that count as pushed, each as long as a raw one. */
  public long pushedBytes(int tenant) {
    return pushedOfTenant[tenant];
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
   * Takes several keys, and reads ahead the memory that {@link #findApproached} needs. A large
   * directory does not fit into the processor's cache, and one find waits for memory twice. Here,
   * the waits for all keys overlap. No key counts as sought afterwards.
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
    // The loops are short, so that a processor works on several iterations at a time.
    for (int i = 0; i < count; i++) {
      approached[i] = bucketHead(approachedHashes[i]);
    }
    for (int i = 0; i < count; i++) {
      if (approached[i] != NONE) {
        // The value is stored, so that the compiler does not remove the read.
        int block = approached[i];
        approached[i] = records.get(INT, at(block) + NEXT) + copies.touch(block);
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
    records.set(SHORT, at + NAMESPACE, (short) namespaceId);
    records.set(SHORT, at + GROUP, (short) group);
    records.set(BYTE, at + KEY_BYTES, (byte) keyBytes);
    records.set(SHORT, at + HITS, (short) 0);
    records.set(INT, at + CHECKSUM, 0);
    records.set(SHORT, at + USES, (short) 0);
    records.set(SHORT, at + FLAGS, (short) (FLAG_LINKED | FLAG_USED));
    records.set(INT, at + HOLDS, 0);
    copies.clear(block);
    long bucket = 4L * (hashSought(namespaceId, group, keyBytes) & bucketMask);
    records.set(INT, at + NEXT, buckets.get(INT, bucket));
    buckets.set(INT, bucket, block + 1);
    return block;
  }

  /**
   * Removes a block from its chain: its key can be inserted again, and its record stays until
   * {@link #free}. Its retention ends. The key that was sought last stays.
   */
  public void unlink(int block) {
    long at = at(block);
    if (has(FLAG_RETAINED, block)) {
      endRetention(block);
    }
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

  /** The number of records of a tenant's namespaces, including unlinked records. */
  public int recordsOfTenant(int tenant) {
    return recordsOfTenant[tenant];
  }

  /** The number of records of a namespace, including unlinked records. */
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

  /** The hash of a key in four words, zero-padded. */
  public int hashOf(int namespaceId, int group, int keyBytes, long[] words, int at) {
    return hash(
        namespaceId, group, keyBytes, words[at], words[at + 1], words[at + 2], words[at + 3]);
  }

  /** Whether a key in four words is the key that was sought last. */
  public boolean isSought(long[] words, int at) {
    return words[at] == key0
        && words[at + 1] == key1
        && words[at + 2] == key2
        && words[at + 3] == key3;
  }

  /** Copies the key of the last {@link #find} into four words, zero-padded. */
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
        && records.get(SHORT, at + NAMESPACE) == (short) namespaceId
        && records.get(SHORT, at + GROUP) == (short) group
        && records.get(BYTE, at + KEY_BYTES) == keyBytes;
  }

  /** Copies the key of the last {@link #find}, zero-padded to 32 bytes. */
  public void copySought(byte[] target) {
    MemorySegment copy = MemorySegment.ofArray(target);
    copy.set(UNALIGNED, 0, key0);
    copy.set(UNALIGNED, 8, key1);
    copy.set(UNALIGNED, 16, key2);
    copy.set(UNALIGNED, 24, key3);
  }

  /** The {@link #fingerprint} of the key of the last {@link #find}, found or not. */
  public long soughtFingerprint(int namespaceId, int group) {
    return fingerprint(namespaceId, group, key0, key1);
  }

  /**
   * Describes a namespace that has no records yet.
   *
   * @param fingerprint stands for the namespace in the fingerprints of its blocks, which are equal
   *     in all starts of the daemon
   * @param bytesOfBlock the length of its blocks
   */
  public void setNamespace(int namespaceId, long fingerprint, int tenant, long bytesOfBlock) {
    setFingerprint(namespaceId, fingerprint);
    if (namespaceId >= tenants.length) {
      tenants = Arrays.copyOf(tenants, Math.max(64, 2 * namespaceId));
      blockBytes = Arrays.copyOf(blockBytes, tenants.length);
    }
    tenants[namespaceId] = (byte) tenant;
    blockBytes[namespaceId] = bytesOfBlock;
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
    retentions.checkInvariants(block -> has(FLAG_RETAINED, block), highWater);
    checkPushed();
  }

  private void checkPushed() {
    long[] bytes = new long[pushedOfTenant.length];
    for (int block = 0; block < highWater; block++) {
      if (isUsed(block) && has(FLAG_PUSHED, block)) {
        bytes[tenants[namespaceId(block)]] += blockBytes[namespaceId(block)];
        if (copies.slot(0, block) == CopyTable.NO_SLOT) {
          throw new IllegalStateException("block " + block + " counts as pushed without a slot");
        }
      }
    }
    if (!Arrays.equals(bytes, pushedOfTenant)) {
      throw new IllegalStateException("the bytes of pushed blocks do not add up");
    }
  }

  private boolean hasSameKey(int block, int other) {
    return MemorySegment.mismatch(
            records, at(block), at(block) + SOURCE, records, at(other), at(other) + SOURCE)
        < 0;
  }

  @Override
  public void close() {
    arena.close();
  }
}

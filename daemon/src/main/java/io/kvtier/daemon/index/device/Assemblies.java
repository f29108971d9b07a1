package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Chains;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.Shard;
import io.kvtier.layout.encoding.BlockEncoding;
import java.util.Arrays;

/**
 * Blocks that are being put together from copies of their layers and heads: which of them somebody
 * has claimed to copy. Such a block has a reserved slot, or waits for one, and no client can see
 * it. A pool that grows up to a limit; confined to the index.
 *
 * <p>The claims on a block are a bitmap: for each layer, one bit for each head. Another one says
 * which of these bytes have arrived.
 *
 * <p>A block that became raw has two slots if some of its parts came encoded before, or were on
 * their way. A third bitmap says which bytes are in the encoded slot.
 */
final class Assemblies {
  static final int NONE = -1;

  /** No encoded slot beside the block's own. */
  static final int NO_SLOT = -1;

  private static final int NOBODY = -1;
  private static final int FIRST = 1 << 10;

  private final int most;
  private int[] block = new int[0];

  /** The place of the session that has begun the assembly; {@link #NOBODY} when it has ended. */
  private int[] sessionIndex = new int[0];

  private long[][] claimed = new long[0][];
  private long[][] arrived = new long[0][];

  /** Bytes that are in the encoded slot of a block that became raw. */
  private long[][] encoded = new long[0][];

  /** The encoded slot of a block that became raw. */
  private int[] encodedSlot = new int[0];

  private int[] heads = new int[0];

  /** How many layers each block has whose bytes follow each other; 1: all of them together. */
  private int[] units = new int[0];

  /** How many bits are not claimed yet. */
  private int[] missing = new int[0];

  private int[] users = new int[0];
  private boolean[] failed = new boolean[0];
  private boolean[] hasClientBytes = new boolean[0];
  private long[] endNs = new long[0];
  private int[] next = new int[0];
  private int[] buckets = new int[0];

  /** How many blocks each session has begun to put together, by the session's place. */
  private final int[] ofSession;

  private int freeHead = NONE;
  private int highWater;
  private int size;

  Assemblies(int most, int sessionsMax) {
    this.most = most;
    ofSession = new int[sessionsMax];
  }

  private int bucket(int ofBlock) {
    return ((ofBlock * 0x9E3779B9) >>> 7) & (buckets.length - 1);
  }

  private void grow() {
    int from = block.length;
    int to = Math.min(most, Math.max(FIRST, 2 * from));
    block = Arrays.copyOf(block, to);
    sessionIndex = Arrays.copyOf(sessionIndex, to);
    claimed = Arrays.copyOf(claimed, to);
    arrived = Arrays.copyOf(arrived, to);
    encoded = Arrays.copyOf(encoded, to);
    encodedSlot = Arrays.copyOf(encodedSlot, to);
    heads = Arrays.copyOf(heads, to);
    units = Arrays.copyOf(units, to);
    missing = Arrays.copyOf(missing, to);
    users = Arrays.copyOf(users, to);
    failed = Arrays.copyOf(failed, to);
    hasClientBytes = Arrays.copyOf(hasClientBytes, to);
    endNs = Arrays.copyOf(endNs, to);
    next = Arrays.copyOf(next, to);
    buckets = new int[Integer.highestOneBit(Math.max(64, to)) << 1];
    Arrays.fill(buckets, NONE);
    for (int one = 0; one < from; one++) {
      int bucket = bucket(block[one]);
      next[one] = buckets[bucket];
      buckets[bucket] = one;
    }
    for (int one = to - 1; one >= from; one--) {
      block[one] = Directory.NONE;
      claimed[one] = new long[0];
      arrived[one] = new long[0];
      encoded[one] = new long[0];
      encodedSlot[one] = NO_SLOT;
      next[one] = freeHead;
      freeHead = one;
    }
  }

  /**
   * Begins the assembly of a block, of which nothing is claimed yet.
   *
   * @param part any part of the block
   * @return the number of the assembly, or {@link #NONE} when all are in use
   */
  int begin(int ofBlock, Session of, PartOfBlock part) {
    Shard shard = part.shard;
    if (freeHead == NONE && block.length < most) {
      grow();
    }
    int one = freeHead;
    if (one == NONE) {
      return NONE;
    }
    freeHead = next[one];
    highWater = Math.max(highWater, one + 1);
    block[one] = ofBlock;
    sessionIndex[one] = of.index;
    heads[one] = ShardBits.heads(shard);
    missing[one] = ShardBits.count(shard);
    encodedSlot[one] = NO_SLOT;
    users[one] = 0;
    failed[one] = false;
    hasClientBytes[one] = false;
    claimed[one] = ShardBits.cleared(claimed[one], missing[one]);
    arrived[one] = ShardBits.cleared(arrived[one], missing[one]);
    units[one] = part.areLayersRuns ? shard.blockLayers() : 1;
    int bucket = bucket(ofBlock);
    next[one] = buckets[bucket];
    buckets[bucket] = one;
    size++;
    ofSession[of.index]++;
    return one;
  }

  /** The assembly of a block, or {@link #NONE}. */
  int find(int ofBlock) {
    if (size == 0) {
      return NONE;
    }
    int one = buckets[bucket(ofBlock)];
    while (one != NONE && block[one] != ofBlock) {
      one = next[one];
    }
    return one;
  }

  /** Whether a session has begun the assembly. */
  boolean isOf(int one, Session of) {
    return block[one] != Directory.NONE && sessionIndex[one] == of.index;
  }

  /** The session that has begun the assembly ends. */
  void disown(int one) {
    ofSession[sessionIndex[one]]--;
    sessionIndex[one] = NOBODY;
  }

  /** Ends an assembly. */
  void end(int one) {
    int bucket = bucket(block[one]);
    Chains.unlink(buckets, next, bucket, one);
    block[one] = Directory.NONE;
    encodedSlot[one] = NO_SLOT;
    next[one] = freeHead;
    freeHead = one;
    size--;
    if (sessionIndex[one] != NOBODY) {
      disown(one);
    }
  }

  /**
   * Claims layers of a shard for somebody who will copy them.
   *
   * @param from the first layer, by its number in the block
   * @param to the layer after the last one
   * @return false when somebody has claimed any of these bytes: nothing is claimed then
   */
  boolean claim(int one, Shard shard, int from, int to) {
    long[] bits = claimed[one];
    int perLayer = heads[one];
    if (ShardBits.hasAny(bits, shard, perLayer, from, to)) {
      return false;
    }
    missing[one] -= ShardBits.set(bits, shard, perLayer, from, to);
    users[one]++;
    return true;
  }

  /**
   * Layers of a shard have arrived.
   *
   * @param isEncoded whether they are encoded
   */
  void arrive(int one, PartOfBlock part, boolean isEncoded) {
    set(arrived[one], one, part);
    if (isEncoded && encodedSlot[one] != NO_SLOT) {
      set(encoded[one], one, part);
    }
  }

  private void set(long[] of, int one, PartOfBlock part) {
    int ignored = ShardBits.set(of, part.shard, heads[one], part.fromLayer, part.toLayer);
  }

  /** Whether a block has parts, there or claimed, beside one that is claimed. */
  boolean hasOthers(int one) {
    return users[one] > 1 || ShardBits.hasAny(arrived[one]);
  }

  /** Keeps the encoded slot of a block that became raw: all bytes that have arrived are there. */
  void keepEncoded(int one, int slot) {
    encodedSlot[one] = slot;
    encoded[one] = arrived[one].clone();
  }

  /** The encoded slot of a block that became raw, or {@link #NO_SLOT}. */
  int encodedSlot(int one) {
    return encodedSlot[one];
  }

  /** The parts of a whole block that are in its encoded slot. They outlive the assembly. */
  EncodedParts encodedParts(int one, BlockEncoding encoding, KvLayout layout) {
    return new EncodedParts(encoding, layout, encoded[one], heads[one]);
  }

  /** How many layers a block has whose bytes follow each other; 1: all of them together. */
  int units(int one) {
    return units[one];
  }

  /** Whether all heads of a layer have arrived. */
  boolean hasLayer(int one, int layer) {
    return ShardBits.isFull(arrived[one], heads[one], layer);
  }

  /** Somebody who has claimed bytes copies them no more: they have arrived, or won't come. */
  void endUse(int one) {
    users[one]--;
  }

  /** Whether all bytes of the block have arrived. */
  boolean isWhole(int one) {
    return missing[one] == 0 && users[one] == 0 && !failed[one];
  }

  int block(int one) {
    return block[one];
  }

  /** Whether nobody copies to the block's slot. */
  boolean isUnused(int one) {
    return users[one] == 0;
  }

  /** Notes that the block will not be whole. Its slot is given back when nobody copies there. */
  void fail(int one) {
    failed[one] = true;
  }

  boolean isFailed(int one) {
    return failed[one];
  }

  /** Notes that a client has written bytes of the block. */
  void setClientBytes(int one) {
    hasClientBytes[one] = true;
  }

  /** Whether a client has written bytes of the block. */
  boolean hasClientBytes(int one) {
    return hasClientBytes[one];
  }

  /** Sets the time at which the assembly is given up if nobody copies there. */
  void setEnd(int one, long instantNs) {
    endNs[one] = instantNs;
  }

  /** Whether the assembly waits for bytes that did not come in time. */
  boolean isOverdue(int one, long nowNs) {
    return block[one] != Directory.NONE && users[one] == 0 && !failed[one] && nowNs >= endNs[one];
  }

  int size() {
    return size;
  }

  /** How many blocks a session has begun to put together. */
  int size(Session of) {
    return ofSession[of.index];
  }

  /** One past the highest number in use so far. */
  int highWater() {
    return highWater;
  }
}

package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Chains;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.session.Session;
import java.util.Arrays;

/**
 * Blocks that are being put together from copies of their layers: which layers are there. Such a
 * block has a reserved slot, and no client can see it. A fixed pool; confined to the index.
 */
final class Assemblies {
  static final int NONE = -1;

  private static final int WORDS = 8;

  private final int[] block;
  private final long[] session;
  private final int[] sessionIndex;
  private final long[] arrived;
  private final int[] layers;
  private final int[] missing;
  private final int[] users;
  private final boolean[] failed;
  private final long[] endNs;
  private final int[] next;
  private final int[] heads;

  /** How many blocks each session puts together, by the session's place. */
  private final int[] ofSession;

  private int freeHead;
  private int highWater;
  private int size;

  Assemblies(int most, int sessionsMax) {
    ofSession = new int[sessionsMax];
    block = new int[most];
    session = new long[most];
    sessionIndex = new int[most];
    arrived = new long[most * WORDS];
    layers = new int[most];
    missing = new int[most];
    users = new int[most];
    failed = new boolean[most];
    endNs = new long[most];
    next = new int[most];
    heads = new int[Integer.highestOneBit(Math.max(64, most)) << 1];
    Arrays.fill(heads, NONE);
    Arrays.fill(block, Directory.NONE);
    for (int i = 0; i < most; i++) {
      next[i] = i + 1 < most ? i + 1 : NONE;
    }
  }

  private int bucket(int ofBlock) {
    return ((ofBlock * 0x9E3779B9) >>> 7) & (heads.length - 1);
  }

  /**
   * Begins the assembly of a block.
   *
   * @return the number of the assembly, or {@link #NONE} when all are in use
   */
  int begin(int ofBlock, Session of, int ofLayers) {
    int one = freeHead;
    if (one == NONE) {
      return NONE;
    }
    freeHead = next[one];
    highWater = Math.max(highWater, one + 1);
    block[one] = ofBlock;
    session[one] = of.id();
    sessionIndex[one] = of.index;
    layers[one] = ofLayers;
    missing[one] = ofLayers;
    users[one] = 0;
    failed[one] = false;
    Arrays.fill(arrived, one * WORDS, (one + 1) * WORDS, 0);
    int bucket = bucket(ofBlock);
    next[one] = heads[bucket];
    heads[bucket] = one;
    size++;
    ofSession[of.index]++;
    return one;
  }

  /** The assembly of a block that a session has begun, or {@link #NONE}. */
  int find(int ofBlock, Session of) {
    int one = heads[bucket(ofBlock)];
    while (one != NONE && block[one] != ofBlock) {
      one = next[one];
    }
    return one != NONE && isOf(one, of) ? one : NONE;
  }

  boolean isOf(int one, Session of) {
    return block[one] != Directory.NONE && session[one] == of.id() && sessionIndex[one] == of.index;
  }

  /** Ends an assembly. */
  void end(int one, Session of) {
    int bucket = bucket(block[one]);
    Chains.unlink(heads, next, bucket, one);
    block[one] = Directory.NONE;
    next[one] = freeHead;
    freeHead = one;
    size--;
    ofSession[of.index]--;
  }

  /** Layers of a block have arrived. */
  void arrived(int one, int from, int to) {
    for (int layer = from; layer < to; layer++) {
      int word = one * WORDS + (layer >>> 6);
      long bit = 1L << layer;
      missing[one] -= (arrived[word] & bit) == 0 ? 1 : 0;
      arrived[word] |= bit;
    }
  }

  boolean isWhole(int one) {
    return missing[one] == 0 && !failed[one];
  }

  int block(int one) {
    return block[one];
  }

  /** Changes the number of places that copy to the block's slot. */
  void addUsers(int one, int delta) {
    users[one] += delta;
  }

  /** Whether nothing copies to the block's slot. */
  boolean isUnused(int one) {
    return users[one] == 0;
  }

  /**
   * Notes that the block will not be whole: its slot is given back when nothing copies to the slot.
   */
  void fail(int one) {
    failed[one] = true;
  }

  boolean isFailed(int one) {
    return failed[one];
  }

  /** Sets the time at which the assembly is given up if no further layers come. */
  void setEnd(int one, long instantNs) {
    endNs[one] = instantNs;
  }

  /** Whether the assembly waits for layers that did not come in time. */
  boolean isOverdue(int one, long nowNs) {
    return block[one] != Directory.NONE && users[one] == 0 && nowNs >= endNs[one];
  }

  int sessionIndex(int one) {
    return sessionIndex[one];
  }

  int size() {
    return size;
  }

  /** How many blocks a session is putting together. */
  int size(Session of) {
    return ofSession[of.index];
  }

  /** One past the highest number in use so far. */
  int highWater() {
    return highWater;
  }
}

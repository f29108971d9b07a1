package io.kvtier.policies.simulation;

import java.util.Arrays;
import java.util.BitSet;

/**
 * The optimum for block hits of a cache that takes in every miss: what is evicted is what is used
 * again last, or never.
 *
 * <p>Belady, "A study of replacement algorithms for a virtual-storage computer", 1966. The resident
 * blocks are the set bits of their next uses, so that the farthest is the highest bit.
 */
final class ClairvoyantCache implements Replay.Cache {
  /** For each touch, in the order of the replay, when its block is touched next. */
  private final int[] nextUses;

  /** The block of each touch. */
  private final int[] blocks;

  private final int capacity;
  private final BitSet nextUsesOfResident;
  private final boolean[] isResident;

  /** Residents that are not used again. */
  private final int[] useless;

  private int uselessCount;
  private int resident;
  private int now;
  private long evictions;

  ClairvoyantCache(Trace trace, Order order, int capacity) {
    this.capacity = capacity;
    int touches = trace.references();
    blocks = new int[touches];
    int at = 0;
    for (int request = 0; request < trace.requests(); request++) {
      int start = trace.start(request);
      int end = trace.start(request + 1);
      for (int i = start; i < end; i++) {
        blocks[at++] = trace.block(order == Order.HEAD_FIRST ? i : start + end - 1 - i);
      }
    }
    nextUses = new int[touches];
    int[] upcoming = new int[trace.distinct()];
    Arrays.fill(upcoming, Integer.MAX_VALUE);
    for (int touch = touches - 1; touch >= 0; touch--) {
      nextUses[touch] = upcoming[blocks[touch]];
      upcoming[blocks[touch]] = touch;
    }
    nextUsesOfResident = new BitSet(touches);
    isResident = new boolean[trace.distinct()];
    useless = new int[capacity];
  }

  @Override
  public boolean isResident(int block) {
    return isResident[block];
  }

  @Override
  public boolean touch(int block) {
    boolean hit = isResident[block];
    if (hit) {
      nextUsesOfResident.clear(now);
    } else {
      if (resident == capacity) {
        evict();
      } else {
        resident++;
      }
      isResident[block] = true;
    }
    int next = nextUses[now++];
    if (next == Integer.MAX_VALUE) {
      useless[uselessCount++] = block;
    } else {
      nextUsesOfResident.set(next);
    }
    return hit;
  }

  private void evict() {
    evictions++;
    if (uselessCount > 0) {
      isResident[useless[--uselessCount]] = false;
      return;
    }
    int farthest = nextUsesOfResident.length() - 1;
    nextUsesOfResident.clear(farthest);
    isResident[blocks[farthest]] = false;
  }

  @Override
  public long evictions() {
    return evictions;
  }

  @Override
  public long metadataBytes() {
    return 0;
  }
}

package io.kvtier.policies;

import java.util.Arrays;

/**
 * Least recently used first. A doubly linked list threaded through two arrays that are indexed by
 * block id: eight bytes a block, constant time an operation.
 */
public final class LruPolicy implements EvictionPolicy {
  private static final int UNTRACKED = -2;

  private final int[] newer;
  private final int[] older;
  private int newest = NONE;
  private int oldest = NONE;
  private int size;

  /**
   * An empty list.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  public LruPolicy(int blocksMax) {
    newer = new int[blocksMax];
    older = new int[blocksMax];
    Arrays.fill(newer, UNTRACKED);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, int parent) {
    if (newer[block] != UNTRACKED) {
      throw new IllegalStateException("block " + block + " is tracked already");
    }
    linkNewest(block);
    size++;
  }

  @Override
  public void onHit(int block) {
    requireTracked(block);
    if (block != newest) {
      unlink(block);
      linkNewest(block);
    }
  }

  @Override
  public void onRemove(int block) {
    requireTracked(block);
    unlink(block);
    newer[block] = UNTRACKED;
    size--;
  }

  private void requireTracked(int block) {
    if (newer[block] == UNTRACKED) {
      throw new IllegalStateException("block " + block + " is not tracked");
    }
  }

  private void linkNewest(int block) {
    newer[block] = NONE;
    older[block] = newest;
    if (newest == NONE) {
      oldest = block;
    } else {
      newer[newest] = block;
    }
    newest = block;
  }

  private void unlink(int block) {
    int next = newer[block];
    int previous = older[block];
    if (next == NONE) {
      newest = previous;
    } else {
      older[next] = previous;
    }
    if (previous == NONE) {
      oldest = next;
    } else {
      newer[previous] = next;
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    int block = oldest;
    for (int looks = 0; block != NONE && looks < looksMax; looks++) {
      if (filter.accepts(block)) {
        return block;
      }
      block = newer[block];
    }
    return NONE;
  }

  @Override
  public int size() {
    return size;
  }

  @Override
  public long metadataBytes() {
    return 8L * newer.length;
  }

  @Override
  public void checkInvariants() {
    int count = 0;
    int previous = NONE;
    for (int block = oldest; block != NONE; block = newer[block]) {
      if (older[block] != previous || ++count > size) {
        throw new IllegalStateException("LRU list is broken at block " + block);
      }
      previous = block;
    }
    if (previous != newest || count != size) {
      throw new IllegalStateException("LRU list has " + count + " blocks, expected " + size);
    }
  }
}

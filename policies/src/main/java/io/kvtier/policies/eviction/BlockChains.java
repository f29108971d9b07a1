package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.BlockVisitor;
import java.util.Arrays;

/**
 * Doubly linked lists of blocks, from an oldest to a newest end, threaded through one array that is
 * indexed by block id: eight bytes a block, constant time an operation. A block is in one list at
 * most; which one, its owner knows.
 */
final class BlockChains {
  static final int NONE = EvictionPolicy.NONE;
  private static final int UNTRACKED = -2;

  /** The newer neighbour at 2 b, the older one at 2 b + 1. */
  private final int[] links;

  private final int[] oldest;
  private final int[] newest;
  private final int[] sizes;
  private int size;

  /**
   * Empty lists.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   */
  BlockChains(int blocksMax, int chains) {
    links = new int[Math.multiplyExact(2, blocksMax)];
    oldest = new int[chains];
    newest = new int[chains];
    sizes = new int[chains];
    Arrays.fill(links, UNTRACKED);
    Arrays.fill(oldest, NONE);
    Arrays.fill(newest, NONE);
  }

  boolean isTracked(int block) {
    return links[2 * block] != UNTRACKED;
  }

  void requireTracked(int block) {
    if (!isTracked(block)) {
      throw new IllegalStateException("block " + block + " is not tracked");
    }
  }

  void requireUntracked(int block) {
    if (isTracked(block)) {
      throw new IllegalStateException("block " + block + " is tracked already");
    }
  }

  /** Puts a block that is in no list at a list's newest end. */
  void append(int chain, int block) {
    int last = newest[chain];
    links[2 * block] = NONE;
    links[2 * block + 1] = last;
    if (last == NONE) {
      oldest[chain] = block;
    } else {
      links[2 * last] = block;
    }
    newest[chain] = block;
    sizes[chain]++;
    size++;
  }

  /** Puts a block that is in no list before another, as the older one. */
  void insertBefore(int chain, int block, int newer) {
    int older = links[2 * newer + 1];
    links[2 * block] = newer;
    links[2 * block + 1] = older;
    links[2 * newer + 1] = block;
    if (older == NONE) {
      oldest[chain] = block;
    } else {
      links[2 * older] = block;
    }
    sizes[chain]++;
    size++;
  }

  /** Takes a block out of the list that it is in. */
  void remove(int chain, int block) {
    int next = links[2 * block];
    int previous = links[2 * block + 1];
    if (next == NONE) {
      newest[chain] = previous;
    } else {
      links[2 * next + 1] = previous;
    }
    if (previous == NONE) {
      oldest[chain] = next;
    } else {
      links[2 * previous] = next;
    }
    links[2 * block] = UNTRACKED;
    sizes[chain]--;
    size--;
  }

  /** Moves a block to a list's newest end. */
  void move(int from, int to, int block) {
    if (from != to || newest[to] != block) {
      remove(from, block);
      append(to, block);
    }
  }

  /** Puts all blocks of one list before the oldest of another. */
  void prepend(int from, int to) {
    if (sizes[from] == 0) {
      return;
    }
    int last = newest[from];
    int first = oldest[to];
    links[2 * last] = first;
    if (first == NONE) {
      newest[to] = last;
    } else {
      links[2 * first + 1] = last;
    }
    oldest[to] = oldest[from];
    sizes[to] += sizes[from];
    oldest[from] = NONE;
    newest[from] = NONE;
    sizes[from] = 0;
  }

  int oldest(int chain) {
    return oldest[chain];
  }

  int newer(int block) {
    return links[2 * block];
  }

  int size(int chain) {
    return sizes[chain];
  }

  /** The blocks in all lists together. */
  int size() {
    return size;
  }

  void forEach(int chain, BlockVisitor visitor) {
    for (int block = oldest[chain]; block != NONE; ) {
      int next = newer(block);
      visitor.visit(block);
      block = next;
    }
  }

  long bytes() {
    return 4L * (links.length + oldest.length + newest.length + sizes.length);
  }

  /** Checks the lists, for tests. */
  void checkInvariants() {
    int total = 0;
    for (int chain = 0; chain < oldest.length; chain++) {
      int count = 0;
      int previous = NONE;
      for (int block = oldest[chain]; block != NONE; block = links[2 * block]) {
        if (links[2 * block + 1] != previous || ++count > sizes[chain]) {
          throw new IllegalStateException("list " + chain + " is broken at block " + block);
        }
        previous = block;
      }
      if (previous != newest[chain] || count != sizes[chain]) {
        throw new IllegalStateException(
            "list " + chain + " has " + count + " blocks, expected " + sizes[chain]);
      }
      total += count;
    }
    if (total != size) {
      throw new IllegalStateException("the lists have " + total + " blocks, expected " + size);
    }
  }
}

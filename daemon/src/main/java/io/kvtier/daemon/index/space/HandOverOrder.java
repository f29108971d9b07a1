package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.Directory;
import java.util.Arrays;
import java.util.BitSet;
import java.util.function.IntPredicate;

/**
 * The order in which the blocks of the first tier are handed to other nodes:
 *
 * <ul>
 *   <li>Retained blocks come first.
 *   <li>Then come those that would leave last, of all tenants in turn, as their shares are.
 *   <li>Before each block come the blocks before it in its sequence: without them nobody finds it.
 * </ul>
 *
 * <p>Made at once, with one visit of each block. Confined to the index.
 */
public final class HandOverOrder {
  private final Directory directory;
  private final ResidentTier first;
  private final BitSet listed = new BitSet();
  private int[] blocks;
  private int count;

  /** The order of the blocks that are in the first tier now. */
  public HandOverOrder(Directory directory, ResidentTier first) {
    this.directory = directory;
    this.first = first;
    int[] worth = byWorth();
    blocks = new int[worth.length];
    list(worth, block -> directory.has(Directory.FLAG_RETAINED, block));
    list(worth, _ -> true);
  }

  /** The blocks in order. */
  public int[] blocks() {
    return Arrays.copyOf(blocks, count);
  }

  /** All blocks, the last to leave first: those of each part at equal distances. */
  private int[] byWorth() {
    int[][] parts = new int[first.slots().parts()][];
    int all = 0;
    for (int part = 0; part < parts.length; part++) {
      parts[part] = first.inOrder(part);
      all += parts[part].length;
    }
    int[] taken = new int[parts.length];
    int[] worth = new int[all];
    for (int i = 0; i < all; i++) {
      int next = -1;
      for (int part = 0; part < parts.length; part++) {
        boolean isLeft = taken[part] < parts[part].length;
        if (isLeft && (next < 0 || isBehind(taken, parts, part, next))) {
          next = part;
        }
      }
      worth[i] = parts[next][parts[next].length - 1 - taken[next]++];
    }
    return worth;
  }

  /** Whether less of one part has been taken than of another. */
  private static boolean isBehind(int[] taken, int[][] parts, int one, int other) {
    return (long) taken[one] * parts[other].length < (long) taken[other] * parts[one].length;
  }

  private void list(int[] worth, IntPredicate wanted) {
    for (int block : worth) {
      if (wanted.test(block)) {
        listWithHead(block);
      }
    }
  }

  /** Lists a block behind those before it in its sequence, as far as they are here. */
  private void listWithHead(int block) {
    int begin = count;
    for (int one = block;
        one >= 0 && !listed.get(one) && first.isResident(one);
        one = directory.parentBlock(one)) {
      listed.set(one);
      if (count == blocks.length) {
        blocks = Arrays.copyOf(blocks, 2 * count);
      }
      blocks[count++] = one;
    }
    for (int low = begin, high = count - 1; low < high; low++, high--) {
      int other = blocks[low];
      blocks[low] = blocks[high];
      blocks[high] = other;
    }
  }
}

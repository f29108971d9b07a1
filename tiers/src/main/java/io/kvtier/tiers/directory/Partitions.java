package io.kvtier.tiers.directory;

import java.util.BitSet;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * The owner of each partition, by rendezvous hashing: the node whose hash with the partition is the
 * highest (Thaler, Ravishankar: A Name-Based Mapping Scheme for Rendezvous, 1996). All who know the
 * same nodes know the same owners. A node that comes or goes moves only its own partitions. Not
 * safe for several threads.
 */
public final class Partitions {
  /** How many partitions there are: a node of a thousand has some hundred. */
  public static final int COUNT = 1 << 17;

  /** The owner where there are no nodes. */
  public static final long NOBODY = 0;

  private static final int SHIFT = Long.SIZE - 17;

  private final Set<Long> nodes = new LinkedHashSet<>();
  private final long[] owners = new long[COUNT];

  /** The partition of a block. */
  public static int of(long hash) {
    return (int) (hash >>> SHIFT);
  }

  /** The node that owns a partition; {@link #NOBODY} if there are no nodes. */
  public long owner(int partition) {
    return owners[partition];
  }

  /** The number of nodes. */
  public int nodes() {
    return nodes.size();
  }

  /** Is told about a partition that has another owner now. */
  @FunctionalInterface
  public interface Listener {
    /**
     * A partition has moved.
     *
     * @param before its owner until now; {@link #NOBODY} if there was none
     */
    void moved(int partition, long before);
  }

  /**
   * A node has come.
   *
   * @param node any number but 0, different for each node and start
   * @param listener is told about the partitions that the node owns now
   * @return these partitions
   */
  public BitSet join(long node, Listener listener) {
    BitSet moved = new BitSet(COUNT);
    if (node == NOBODY || !nodes.add(node)) {
      return moved;
    }
    for (int partition = 0; partition < COUNT; partition++) {
      if (isBetter(node, owners[partition], partition)) {
        listener.moved(partition, owners[partition]);
        owners[partition] = node;
        moved.set(partition);
      }
    }
    return moved;
  }

  /** A node has come; returns the partitions that it owns now. */
  public BitSet join(long node) {
    return join(node, (_, _) -> {});
  }

  /**
   * A node has gone.
   *
   * @return the partitions that have another owner now
   */
  public BitSet leave(long node) {
    BitSet moved = new BitSet(COUNT);
    if (!nodes.remove(node)) {
      return moved;
    }
    for (int partition = 0; partition < COUNT; partition++) {
      if (owners[partition] == node) {
        owners[partition] = best(partition);
        moved.set(partition);
      }
    }
    return moved;
  }

  private long best(int partition) {
    long best = NOBODY;
    for (long node : nodes) {
      if (isBetter(node, best, partition)) {
        best = node;
      }
    }
    return best;
  }

  /** Nodes with equal hashes are ordered by their numbers. */
  private static boolean isBetter(long node, long than, int partition) {
    if (than == NOBODY) {
      return true;
    }
    int order = Long.compareUnsigned(hash(node, partition), hash(than, partition));
    return order > 0 || (order == 0 && Long.compareUnsigned(node, than) > 0);
  }

  /** The finalizer of SplitMix64 (Steele, Lea, Flood, 2014). */
  private static long hash(long node, int partition) {
    long mixed = node + (partition + 1) * 0x9E37_79B9_7F4A_7C15L;
    mixed = (mixed ^ (mixed >>> 30)) * 0xBF58_476D_1CE4_E5B9L;
    mixed = (mixed ^ (mixed >>> 27)) * 0x94D0_49BB_1331_11EBL;
    return mixed ^ (mixed >>> 31);
  }
}

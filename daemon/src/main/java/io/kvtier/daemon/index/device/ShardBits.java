package io.kvtier.daemon.index.device;

import io.kvtier.layout.Shard;
import java.util.Arrays;

/** The layers and heads of a block as bits: layer by layer, one bit for each head. */
final class ShardBits {
  /**
   * Maximum heads of all layers of a block of which ranks have different heads; bounds the memory
   * of an assembly to 2 KiB. The heads of a larger block are one bit for each layer.
   */
  static final int MOST = 1 << 14;

  private ShardBits() {}

  /** Why blocks can't be put together from shards with some of the heads, in words. */
  static String problem(Shard shard) {
    return "a block has "
        + shard.blockLayers()
        + " layers of "
        + shard.blockHeads()
        + " heads: ranks can share blocks with at most "
        + MOST
        + " heads in all layers";
  }

  /** Whether blocks can be put together from shards with some of the heads. */
  static boolean canShareHeads(Shard shard) {
    return (long) shard.blockLayers() * shard.blockHeads() <= MOST;
  }

  /** How many bits a layer has. */
  static int heads(Shard shard) {
    return canShareHeads(shard) ? shard.blockHeads() : 1;
  }

  /** How many bits a block has. */
  static int count(Shard shard) {
    return shard.blockLayers() * heads(shard);
  }

  /** Makes space for bits that are all 0, in an array if that is large enough. */
  static long[] cleared(long[] bits, int count) {
    int words = (count + Long.SIZE - 1) / Long.SIZE;
    if (bits.length < words) {
      return new long[words];
    }
    Arrays.fill(bits, 0);
    return bits;
  }

  /** Whether any bit of a block is set. */
  static boolean hasAny(long[] bits) {
    return hasAny(bits, 0, bits.length * Long.SIZE);
  }

  /** Whether any bit is set of some layers of a shard. */
  static boolean hasAny(long[] bits, Shard shard, int perLayer, int from, int to) {
    if (isOfAllHeads(shard, perLayer)) {
      return hasAny(bits, from * perLayer, to * perLayer);
    }
    boolean has = false;
    for (int layer = from; layer < to && !has; layer++) {
      int first = layer * perLayer;
      has = hasAny(bits, first + shard.heads().from(), first + shard.heads().to());
    }
    return has;
  }

  /** Sets the bits of some layers of a shard; returns how many bits these are. */
  static int set(long[] bits, Shard shard, int perLayer, int from, int to) {
    if (isOfAllHeads(shard, perLayer)) {
      set(bits, from * perLayer, to * perLayer);
      return (to - from) * perLayer;
    }
    for (int layer = from; layer < to; layer++) {
      int first = layer * perLayer;
      set(bits, first + shard.heads().from(), first + shard.heads().to());
    }
    return (to - from) * shard.heads().count();
  }

  /** Whether all bits of a layer are set. */
  static boolean isFull(long[] bits, int perLayer, int layer) {
    int to = (layer + 1) * perLayer;
    for (int bit = layer * perLayer; bit < to; bit = (bit | 63) + 1) {
      if ((~bits[bit >>> 6] & mask(bit, to)) != 0) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether the bit of a head is set in a layer. If the layer has no bit for the head: whether any
   * bit of the layer is set.
   */
  static boolean has(long[] bits, int perLayer, int layer, int head) {
    int first = layer * perLayer;
    boolean isOne = head >= 0 && head < perLayer;
    return isOne
        ? hasAny(bits, first + head, first + head + 1)
        : hasAny(bits, first, first + perLayer);
  }

  private static boolean isOfAllHeads(Shard shard, int perLayer) {
    return perLayer == 1 || shard.heads().count() == perLayer;
  }

  private static boolean hasAny(long[] bits, int from, int to) {
    long found = 0;
    for (int bit = from; bit < to; bit = (bit | 63) + 1) {
      found |= bits[bit >>> 6] & mask(bit, to);
    }
    return found != 0;
  }

  private static void set(long[] bits, int from, int to) {
    for (int bit = from; bit < to; bit = (bit | 63) + 1) {
      bits[bit >>> 6] |= mask(bit, to);
    }
  }

  /** The bits of a word from a bit on, below an end that may be behind the word. */
  private static long mask(int from, int to) {
    long above = -1L << from;
    return (from | 63) < to ? above : above & ~(-1L << to);
  }
}

package io.kvtier.layout;

import java.util.List;

/**
 * The layout of KV blocks on both sides of a copy. On the device, the bytes of a block are
 * scattered over the engine's tensors. On the host, a block is one contiguous span. {@link
 * #addRuns} computes the {@link Runs} of a copy of any layers and heads of a block.
 *
 * <p>A block on the host is the sequence of its parts. Each part begins at a multiple of {@value
 * #PART_ALIGNMENT_BYTES} bytes and holds its cells in the block's order, without gaps:
 *
 * <pre>
 *   | keys and values: [layer, k|v, token, head, element] | scales: [layer, k|v, token, head] |
 * </pre>
 *
 * <p>A part has one tensor with a layer axis, or one tensor for each layer. Where a tensor has no
 * block axis, its token axis counts the tokens of all blocks, block by block.
 *
 * @param layers how many layers a block has
 * @param blocks how many blocks the tensors hold
 * @param blockTokens the tokens of one block
 * @param order the order of the cells of a block on the host
 * @param parts the parts of a block, in their order on the host
 */
public record KvLayout(
    int layers, int blocks, int blockTokens, BlockOrder order, List<KvPart> parts) {
  /** The alignment of each part of a block on the host. */
  public static final int PART_ALIGNMENT_BYTES = 16;

  public KvLayout {
    parts = List.copyOf(parts);
    requirePositive(layers, "layers");
    requirePositive(blocks, "blocks");
    requirePositive(blockTokens, "tokens of a block");
    if (parts.isEmpty()) {
      throw new IllegalArgumentException("a layout without parts: expected keys and values");
    }
    long bytes = 0;
    for (KvPart part : parts) {
      requireFits(part, layers, blocks, blockTokens);
      bytes = alignedPartEnd(bytes, partBytes(part, layers, blockTokens));
    }
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "a block of " + bytes + " bytes: expected at most " + Integer.MAX_VALUE);
    }
    int heads = headsOf(parts);
    for (KvPart part : parts) {
      int own = part.shape().extent(KvAxis.HEAD);
      if (own != heads && own != 1) {
        throw new IllegalArgumentException(
            "part '"
                + part.name()
                + "' has "
                + own
                + " heads: expected "
                + heads
                + ", or 1 for all");
      }
    }
  }

  private static void requirePositive(int value, String what) {
    if (value < 1) {
      throw new IllegalArgumentException(value + " " + what + ": expected 1 or more");
    }
  }

  private static void requireFits(KvPart part, int layers, int blocks, int blockTokens) {
    TensorShape shape = part.shape();
    if (shape.has(KvAxis.LAYER)) {
      requireExtent(part, KvAxis.LAYER, layers, "layers");
    }
    if (shape.has(KvAxis.BLOCK)) {
      requireExtent(part, KvAxis.BLOCK, blocks, "blocks");
      if (shape.has(KvAxis.TOKEN)) {
        requireExtent(part, KvAxis.TOKEN, blockTokens, "tokens of a block");
      }
    } else {
      requireExtent(part, KvAxis.TOKEN, (long) blocks * blockTokens, "tokens of all blocks");
    }
  }

  private static void requireExtent(KvPart part, KvAxis axis, long expected, String what) {
    int extent = part.shape().extent(axis);
    if (extent != expected) {
      throw new IllegalArgumentException(
          "extent "
              + extent
              + " of axis '"
              + axis.letter()
              + "' of part '"
              + part.name()
              + "': expected "
              + expected
              + ", the "
              + what);
    }
  }

  private static int headsOf(List<KvPart> parts) {
    int heads = 1;
    for (KvPart part : parts) {
      heads = Math.max(heads, part.shape().extent(KvAxis.HEAD));
    }
    return heads;
  }

  /** How many heads the tensors have. A part with one head has one value for all heads. */
  public int heads() {
    return headsOf(parts);
  }

  /** Whether the tensors hold all heads of a block, and not only those of one rank. */
  public boolean hasWholeBlocks() {
    for (KvPart part : parts) {
      if (part.blockHeads() != part.shape().extent(KvAxis.HEAD)) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether the blocks of both layouts have the same bytes in the same order on the host. Such
   * blocks can be copied from device to device, even where the layouts of the tensors differ.
   */
  public boolean hasSameBlockFormAs(KvLayout other) {
    boolean isSame =
        layers == other.layers
            && blockTokens == other.blockTokens
            && order.equals(other.order)
            && parts.size() == other.parts.size();
    for (int i = 0; isSame && i < parts.size(); i++) {
      KvPart mine = parts.get(i);
      KvPart theirs = other.parts.get(i);
      isSame =
          mine.shape().cellBytes() == theirs.shape().cellBytes()
              && tokens(mine.shape(), blockTokens) == tokens(theirs.shape(), blockTokens)
              && mine.shape().extent(KvAxis.PLANE) == theirs.shape().extent(KvAxis.PLANE)
              && mine.shape().extent(KvAxis.HEAD) == theirs.shape().extent(KvAxis.HEAD)
              && mine.blockHeads() == theirs.blockHeads()
              && mine.firstHead() == theirs.firstHead();
    }
    return isSame;
  }

  /** How many tensors the layout has: for each part, one tensor or one for each layer. */
  public int tensorCount() {
    int count = 0;
    for (KvPart part : parts) {
      count += part.tensorCount(layers);
    }
    return count;
  }

  /**
   * The part of a tensor.
   *
   * @param tensor the tensor's number: part by part, and layer by layer
   */
  public KvPart partOfTensor(int tensor) {
    int first = 0;
    for (KvPart part : parts) {
      first += part.tensorCount(layers);
      if (tensor < first) {
        return part;
      }
    }
    throw new IndexOutOfBoundsException("tensor " + tensor + " of " + first);
  }

  /** The bytes of a whole block on the host, including the padding between its parts. */
  public int blockBytes() {
    long bytes = 0;
    for (KvPart part : parts) {
      bytes = alignedPartEnd(bytes, partBytes(part, layers, blockTokens));
    }
    return (int) bytes;
  }

  private static long alignedPartEnd(long start, long bytes) {
    return align(start) + bytes;
  }

  private static long align(long offset) {
    return (offset + PART_ALIGNMENT_BYTES - 1) & -PART_ALIGNMENT_BYTES;
  }

  private static long partBytes(KvPart part, int layers, int blockTokens) {
    long cells = Math.multiplyExact((long) layers, tokens(part.shape(), blockTokens));
    cells = Math.multiplyExact(cells, (long) part.shape().extent(KvAxis.PLANE) * part.blockHeads());
    return Math.multiplyExact(cells, part.shape().cellBytes());
  }

  /** How many tokens of a block have values of their own: 1 where all tokens share a scale. */
  static int tokens(TensorShape shape, int blockTokens) {
    return shape.has(KvAxis.TOKEN) ? blockTokens : 1;
  }

  /**
   * The number of runs of one layer of a block, with all heads. A copy of several layers has at
   * most this number for each layer.
   */
  public long runsPerLayer() {
    long runs = 0;
    for (KvPart part : parts) {
      IndexRange heads = IndexRange.all(part.shape().extent(KvAxis.HEAD));
      runs += new PartRuns(this, part, IndexRange.all(1), heads).count();
    }
    return runs;
  }

  /** The largest number of runs of a block, which a copy of each layer by itself has. */
  public long runsPerBlock() {
    return layers * runsPerLayer();
  }

  /**
   * Adds the runs of some layers and heads of a block, in the order of their host addresses.
   *
   * @param tensorAddresses the address of each tensor: part by part, and layer by layer
   * @param hostAddress the address of the whole block on the host, even where the copy leaves out
   *     its first bytes
   * @throws IllegalArgumentException when the layout has no such block, layer or head
   */
  public void addRuns(
      int block,
      IndexRange someLayers,
      IndexRange someHeads,
      long[] tensorAddresses,
      long hostAddress,
      Runs runs) {
    if (block < 0 || block >= blocks) {
      throw new IllegalArgumentException(
          "block " + block + " is not in the region: it has " + blocks + ", from 0 on");
    }
    someLayers.requireWithin(layers, "layers");
    someHeads.requireWithin(heads(), "heads");
    if (tensorAddresses.length != tensorCount()) {
      throw new IllegalArgumentException(
          tensorAddresses.length + " tensors: expected " + tensorCount() + " for this layout");
    }
    if (someLayers.count() == 0 || someHeads.count() == 0) {
      return;
    }
    int firstTensor = 0;
    long partOffset = 0;
    for (KvPart part : parts) {
      partOffset = align(partOffset);
      IndexRange partHeads = part.shape().extent(KvAxis.HEAD) == 1 ? IndexRange.all(1) : someHeads;
      new PartRuns(this, part, someLayers, partHeads)
          .add(block, tensorAddresses, firstTensor, hostAddress + partOffset, runs);
      firstTensor += part.tensorCount(layers);
      partOffset += partBytes(part, layers, blockTokens);
    }
  }
}

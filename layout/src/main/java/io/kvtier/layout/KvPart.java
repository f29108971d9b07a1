package io.kvtier.layout;

/**
 * One kind of data in a block: the keys and values, or their scales.
 *
 * @param shape the shape of the tensor of all layers, or of each layer's tensor
 * @param blockHeads the heads of a block in host memory. A block has more heads than the tensor
 *     where the ranks of a tensor-parallel engine share it.
 * @param firstHead the number of the tensor's first head in the block
 */
public record KvPart(String name, TensorShape shape, int blockHeads, int firstHead) {
  public KvPart {
    int heads = shape.extent(KvAxis.HEAD);
    if (firstHead < 0 || firstHead > blockHeads - heads) {
      throw new IllegalArgumentException(
          "heads "
              + firstHead
              + " to "
              + (firstHead + (long) heads)
              + " of part '"
              + name
              + "' are not all in a block of "
              + blockHeads
              + " heads");
    }
    if (!shape.has(KvAxis.BLOCK) && !shape.has(KvAxis.TOKEN)) {
      throw new IllegalArgumentException(
          "axes '"
              + shape.axes()
              + "' of part '"
              + name
              + "' tell no blocks apart: expected B, or N over the tokens of all blocks");
    }
  }

  /** A part whose blocks have exactly the heads of the tensor. */
  public static KvPart of(String name, TensorShape shape) {
    return new KvPart(name, shape, shape.extent(KvAxis.HEAD), 0);
  }

  /** Whether both parts have the same heads of blocks with the same number of heads. */
  boolean hasSameHeadsAs(KvPart other) {
    return blockHeads == other.blockHeads
        && firstHead == other.firstHead
        && shape.extent(KvAxis.HEAD) == other.shape.extent(KvAxis.HEAD);
  }

  /** How many blocks a page of the tensor has. A tensor without a block axis has no pages: 1. */
  int blocksOfPage(int blockTokens) {
    return shape.has(KvAxis.BLOCK) && shape.has(KvAxis.TOKEN)
        ? shape.extent(KvAxis.TOKEN) / blockTokens
        : 1;
  }

  /** How many tensors the part has: one, or one for each layer. */
  int tensorCount(int layers) {
    return shape.has(KvAxis.LAYER) ? 1 : layers;
  }
}

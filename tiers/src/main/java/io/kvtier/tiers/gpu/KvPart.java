package io.kvtier.tiers.gpu;

/**
 * One kind of data that a block has: the keys and values, or the scales beside them.
 *
 * @param shape of the tensor with all layers, or of each layer's
 * @param blockHeads how many heads a block has in host memory: more than the tensor where a block
 *     is shared by the ranks of a tensor-parallel engine
 * @param firstHead which of those the tensor's first head is
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

  /** A part whose blocks have the heads that the tensor has. */
  public static KvPart of(String name, TensorShape shape) {
    return new KvPart(name, shape, shape.extent(KvAxis.HEAD), 0);
  }

  /** How many tensors it has: one, or one a layer. */
  int tensors(int layers) {
    return shape.has(KvAxis.LAYER) ? 1 : layers;
  }
}

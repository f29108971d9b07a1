package io.kvtier.layout;

import java.util.List;

/**
 * Says of which layer and head each byte of a block on the host is. One object is used for one byte
 * after the other. Not safe for several threads.
 */
public final class BlockCells {
  /** The head of a cell that has one value for all heads of its layer. */
  public static final int ALL_HEADS = -1;

  private final KvLayout layout;
  private int layer;
  private int head;

  /** The cells of the blocks of a layout, whatever shard its tensors have. */
  public BlockCells(KvLayout layout) {
    this.layout = layout;
  }

  /**
   * Finds the cell of a byte, for {@link #layer} and {@link #head}.
   *
   * @return false when the byte is padding between two parts
   * @throws IllegalArgumentException when the byte is behind the block
   */
  public boolean find(long offset) {
    long begin = 0;
    for (KvPart part : layout.parts()) {
      begin = KvLayout.align(begin);
      if (offset < begin) {
        return false;
      }
      long end = begin + KvLayout.partBytes(part, layout.blockLayers(), layout.blockTokens());
      if (offset < end) {
        find(part, (offset - begin) / part.shape().cellBytes());
        return true;
      }
      begin = end;
    }
    throw new IllegalArgumentException(
        "byte " + offset + " of a block of " + layout.blockBytes() + " bytes");
  }

  private void find(KvPart part, long cell) {
    List<KvAxis> axes = layout.order().axes();
    long rest = cell;
    for (int i = axes.size() - 1; i >= 0; i--) {
      KvAxis axis = axes.get(i);
      int extent =
          switch (axis) {
            case LAYER -> layout.blockLayers();
            case HEAD -> part.blockHeads();
            case TOKEN -> KvLayout.tokens(part.shape(), layout.blockTokens());
            default -> part.shape().extent(axis);
          };
      int number = (int) (rest % extent);
      rest /= extent;
      if (axis == KvAxis.LAYER) {
        layer = number;
      } else if (axis == KvAxis.HEAD) {
        head = part.blockHeads() == 1 ? ALL_HEADS : number;
      }
    }
  }

  /** The layer of the byte that was found last, by its number in the block. */
  public int layer() {
    return layer;
  }

  /**
   * The head of the byte that was found last, by its number in the block, or {@link #ALL_HEADS}.
   */
  public int head() {
    return head;
  }
}

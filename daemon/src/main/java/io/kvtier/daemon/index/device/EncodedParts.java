package io.kvtier.daemon.index.device;

import io.kvtier.layout.BlockCells;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.encoding.BlockEncoding;
import java.util.function.IntPredicate;

/**
 * The granules of a raw block that are in its encoded slot, and not in its raw one. The thread that
 * decodes them finds their layers and heads, which takes too long for the index.
 */
final class EncodedParts implements IntPredicate {
  private final BlockCells cells;
  private final long granuleBytes;
  private final long[] bits;
  private final int heads;

  /**
   * The parts of a block.
   *
   * @param bits the layers and heads that are encoded, as {@link ShardBits}; they do not change
   * @param heads how many bits a layer has
   */
  EncodedParts(BlockEncoding encoding, KvLayout layout, long[] bits, int heads) {
    cells = new BlockCells(layout);
    granuleBytes = encoding.rawGranuleBytes();
    this.bits = bits;
    this.heads = heads;
  }

  @Override
  public boolean test(int granule) {
    return cells.find(granule * granuleBytes)
        && ShardBits.has(bits, heads, cells.layer(), cells.head());
  }
}

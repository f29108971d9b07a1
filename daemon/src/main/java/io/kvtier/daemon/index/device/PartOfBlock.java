package io.kvtier.daemon.index.device;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvAxis;
import io.kvtier.layout.Replica;
import io.kvtier.layout.Shard;

/**
 * The part of each of its blocks that a request copies: some layers of a shard. One object is used
 * for one request after the other. Confined to the index.
 */
public final class PartOfBlock {
  Shard shard = new Shard(IndexRange.all(1), 1, IndexRange.all(1), 1);

  /** The first layer, by its number in the block. */
  int fromLayer;

  /** The layer after the last one. */
  int toLayer = 1;

  /** Whether the bytes of each layer of the block follow each other, layer by layer. */
  boolean areLayersRuns;

  private Replica replica = Replica.ONLY;

  /**
   * Describes a request.
   *
   * @param from the first layer, by its number in the region
   * @param to the layer after the last one
   */
  void set(Region region, int from, int to) {
    shard = region.shard;
    replica = region.replica;
    areLayersRuns =
        region.layout.parts().size() == 1
            && region.layout.order().axes().getFirst() == KvAxis.LAYER;
    fromLayer = region.layout.firstLayer() + from;
    toLayer = region.layout.firstLayer() + to;
  }

  /**
   * Whether the region's rank stores a block, and not another rank with equal bytes.
   *
   * @param fingerprint of the block's key
   */
  public boolean isStoredHere(long fingerprint) {
    return replica.stores(fingerprint >>> 16);
  }
}

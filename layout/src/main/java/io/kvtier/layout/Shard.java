package io.kvtier.layout;

/**
 * The part of each block that one rank of an engine has: a rectangle of layers and heads.
 *
 * @param layers the rank's layers, by their numbers in the block
 * @param blockLayers how many layers a block has
 * @param heads the rank's heads, by their numbers in the block
 * @param blockHeads how many heads a block has
 */
public record Shard(IndexRange layers, int blockLayers, IndexRange heads, int blockHeads) {
  public Shard {
    layers.requireWithin(blockLayers, "layers");
    heads.requireWithin(blockHeads, "heads");
  }

  /** Whether the shard is the whole block. */
  public boolean isWhole() {
    return layers.count() == blockLayers && heads.count() == blockHeads;
  }
}

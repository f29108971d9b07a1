package io.kvtier.tiers.gpu;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.RunPlan;
import io.kvtier.layout.Runs;
import org.jspecify.annotations.Nullable;

/** A region's tensors as one GPU sees them: their addresses there, and the runs of its blocks. */
final class RegionView {
  private final KvLayout layout;
  private final long[] addresses;
  private final @Nullable RunPlan plan;

  RegionView(KvLayout layout, long[] addresses) {
    this.layout = layout;
    this.addresses = addresses;
    plan = RunPlan.of(layout, addresses);
  }

  /** Adds the runs of some layers and heads of a block, whose slot begins at the host address. */
  void addRuns(int block, IndexRange layers, IndexRange heads, long hostAddress, Runs runs) {
    layout.addRuns(block, layers, heads, addresses, hostAddress, runs);
  }

  /** The same with all heads. */
  void addRuns(int block, IndexRange layers, long hostAddress, Runs runs) {
    RunPlan known = plan;
    if (known == null || !known.keepsOrder(layers)) {
      addRuns(block, layers, IndexRange.all(layout.heads()), hostAddress, runs);
      return;
    }
    requireBlock(block);
    layers.requireWithin(layout.layers(), "layers");
    known.addRuns(block, layers, hostAddress, runs);
  }

  /** Its region is closed: it holds on to no other any more. */
  void forget() {
    RunPlan known = plan;
    if (known != null) {
      known.forgetMatch();
    }
  }

  private void requireBlock(int block) {
    if (block < 0 || block >= layout.blocks()) {
      throw new IllegalArgumentException(
          "block " + block + " is not in the region: it has " + layout.blocks() + ", from 0 on");
    }
  }

  /**
   * Adds the runs from a block of another region to one of this, where both are cut in the same
   * places.
   *
   * @return false where they are not: nothing was added
   */
  boolean addPairs(int block, IndexRange layers, RegionView source, int sourceBlock, Runs runs) {
    RunPlan mine = plan;
    RunPlan others = source.plan;
    if (mine == null || others == null || !mine.isCutAs(others)) {
      return false;
    }
    requireBlock(block);
    source.requireBlock(sourceBlock);
    layers.requireWithin(layout.layers(), "layers");
    mine.addPairs(block, layers, others, sourceBlock, runs);
    return true;
  }
}

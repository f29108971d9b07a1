package io.kvtier.layout;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The runs of the first block of a set of tensors, layer by layer, with the distance to the runs of
 * the next block. A plan adds the runs that {@link KvLayout#addRuns} computes, without computing
 * them again for each block.
 */
public final class RunPlan {
  /** The number of the first run of each layer, and the count of all runs at the end. */
  private final int[] firstOfLayer;

  private final long[] deviceAddresses;
  private final long[] hostOffsets;
  private final int[] lengths;
  private final long[] blockStrides;

  /** Whether the runs of consecutive layers are in the order of their host addresses. */
  private final boolean isLayerMajor;

  /** The last plan that {@link #isCutAs} found to have the same runs on the host. */
  private @Nullable RunPlan lastMatch;

  private RunPlan(int[] firstOfLayer, Runs first, long[] blockStrides, boolean isLayerMajor) {
    this.firstOfLayer = firstOfLayer;
    this.blockStrides = blockStrides;
    this.isLayerMajor = isLayerMajor;
    int count = first.count();
    deviceAddresses = new long[count];
    hostOffsets = new long[count];
    lengths = new int[count];
    for (int i = 0; i < count; i++) {
      deviceAddresses[i] = first.deviceAddress(i);
      hostOffsets[i] = first.hostAddress(i);
      lengths[i] = first.bytes(i);
    }
  }

  /**
   * Makes the plan of a set of tensors.
   *
   * @param tensorAddresses the address of each tensor, part by part and layer by layer
   * @return null where the blocks do not all have the same runs
   */
  public static @Nullable RunPlan of(KvLayout layout, long[] tensorAddresses) {
    int layers = layout.layers();
    Runs all = new Runs();
    Runs some = new Runs();
    Runs same = new Runs();
    int[] firstOfLayer = new int[layers + 1];
    long[] strides = new long[0];
    IndexRange heads = IndexRange.all(layout.heads());
    for (int layer = 0; layer < layers; layer++) {
      IndexRange one = new IndexRange(layer, layer + 1);
      some.clear();
      same.clear();
      layout.addRuns(0, one, heads, tensorAddresses, 0, some);
      layout.addRuns(layout.blocks() > 1 ? 1 : 0, one, heads, tensorAddresses, 0, same);
      strides = Arrays.copyOf(strides, firstOfLayer[layer] + some.count());
      if (some.count() != same.count()) {
        return null;
      }
      for (int i = 0; i < some.count(); i++) {
        if (some.bytes(i) != same.bytes(i) || some.hostAddress(i) != same.hostAddress(i)) {
          return null;
        }
        strides[firstOfLayer[layer] + i] = same.deviceAddress(i) - some.deviceAddress(i);
        all.addSeparate(some.deviceAddress(i), some.hostAddress(i), some.bytes(i));
      }
      firstOfLayer[layer + 1] = all.count();
    }
    boolean isLayerMajor =
        layout.parts().size() == 1 && layout.order().axes().getFirst() == KvAxis.LAYER;
    return new RunPlan(firstOfLayer, all, strides, isLayerMajor);
  }

  /** Whether {@link #addRuns} adds the runs of these layers in the order of the host's bytes. */
  public boolean keepsOrder(IndexRange layers) {
    return isLayerMajor || layers.count() == 1;
  }

  /**
   * Whether the runs of both plans begin and end at the same bytes of a block. Only one thread at a
   * time may call this method.
   */
  public boolean isCutAs(RunPlan other) {
    if (lastMatch != other
        && Arrays.equals(firstOfLayer, other.firstOfLayer)
        && Arrays.equals(hostOffsets, other.hostOffsets)
        && Arrays.equals(lengths, other.lengths)) {
      lastMatch = other;
    }
    return lastMatch == other;
  }

  /** Drops the reference to the last matching plan, so that its region can be freed. */
  public void forgetMatch() {
    lastMatch = null;
  }

  /**
   * Adds runs that copy a block from other tensors to these.
   *
   * @param source the plan of the other tensors, for which {@link #isCutAs} is true
   */
  public void addPairs(int block, IndexRange layers, RunPlan source, int sourceBlock, Runs runs) {
    int end = firstOfLayer[layers.to()];
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + block * blockStrides[i],
          source.deviceAddresses[i] + sourceBlock * source.blockStrides[i],
          lengths[i]);
    }
  }

  /**
   * Adds the runs of some layers of a block with all its heads.
   *
   * @param hostAddress the address of the block on the host
   */
  public void addRuns(int block, IndexRange layers, long hostAddress, Runs runs) {
    int end = firstOfLayer[layers.to()];
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + block * blockStrides[i], hostAddress + hostOffsets[i], lengths[i]);
    }
  }
}

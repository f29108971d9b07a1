package io.kvtier.tiers.gpu;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The runs of a region's first block, layer by layer, and how far those of each further block lie
 * from them: what {@link KvLayout} computes, made once, since it is asked for with every block that
 * is copied.
 */
final class RunPlan {
  private final int[] firstOfLayer;
  private final long[] deviceAddresses;
  private final long[] hostOffsets;
  private final int[] lengths;
  private final long[] blockStrides;

  /**
   * Whether the layers follow one another on the host, so that the runs of several are in order.
   */
  private final boolean isLayerMajor;

  /** The last one that was found to be cut in the same places. */
  private @Nullable RunPlan like;

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

  /** The plan of a region; null where blocks are not all cut alike. */
  static @Nullable RunPlan of(KvLayout layout, long[] tensorAddresses) {
    int layers = layout.layers();
    Runs all = new Runs();
    Runs some = new Runs();
    Runs same = new Runs();
    int[] firstOfLayer = new int[layers + 1];
    long[] strides = new long[0];
    Span heads = Span.all(layout.heads());
    for (int layer = 0; layer < layers; layer++) {
      Span one = new Span(layer, layer + 1);
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
        all.addApart(some.deviceAddress(i), some.hostAddress(i), some.bytes(i));
      }
      firstOfLayer[layer + 1] = all.count();
    }
    boolean isLayerMajor =
        layout.parts().size() == 1 && layout.order().axes().getFirst() == KvAxis.LAYER;
    return new RunPlan(firstOfLayer, all, strides, isLayerMajor);
  }

  /** Whether the runs of these layers come in the order of their places on the host. */
  boolean suits(Span layers) {
    return isLayerMajor || layers.count() == 1;
  }

  /**
   * Whether the runs of another region's blocks are of the same bytes. Asked by one thread at a
   * time.
   */
  boolean isCutLike(RunPlan other) {
    if (like != other
        && Arrays.equals(firstOfLayer, other.firstOfLayer)
        && Arrays.equals(hostOffsets, other.hostOffsets)
        && Arrays.equals(lengths, other.lengths)) {
      like = other;
    }
    return like == other;
  }

  /** Its region is closed: it holds on to no other any more. */
  void forget() {
    like = null;
  }

  /** The runs from a block of a region that {@link #isCutLike} this one. */
  void addPairs(int block, Span layers, RunPlan source, int sourceBlock, Runs runs) {
    int end = firstOfLayer[layers.to()];
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + block * blockStrides[i],
          source.deviceAddresses[i] + sourceBlock * source.blockStrides[i],
          lengths[i]);
    }
  }

  /** {@link KvLayout#addRuns} for all heads. */
  void addRuns(int block, Span layers, long hostAddress, Runs runs) {
    int end = firstOfLayer[layers.to()];
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + block * blockStrides[i], hostAddress + hostOffsets[i], lengths[i]);
    }
  }
}

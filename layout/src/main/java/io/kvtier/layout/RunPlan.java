package io.kvtier.layout;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The runs of the first block of a set of tensors, layer by layer, with the distances to the runs
 * of the next block and of the next page. A plan adds the runs that {@link KvLayout#addRuns}
 * computes, without computing them again for each block.
 */
public final class RunPlan {
  /** The number of the first run of each layer, and the count of all runs at the end. */
  private final int[] firstOfLayer;

  private final long[] deviceAddresses;
  private final long[] hostOffsets;
  private final int[] lengths;

  /** The distances to the runs of the same block of the next page. */
  private final long[] pageStrides;

  /** The distances to the runs of the next block of a page; all 0 where a page is one block. */
  private final long[] blockStrides;

  private final int blocksOfPage;

  /** Whether the runs of consecutive layers are in the order of their host addresses. */
  private final boolean isLayerMajor;

  /** The last plan that {@link #isCutAs} found to have the same runs on the host. */
  private @Nullable RunPlan lastMatch;

  private RunPlan(KvLayout layout, int[] firstOfLayer, Runs first, Strides strides) {
    this.firstOfLayer = firstOfLayer;
    pageStrides = strides.ofPages;
    blockStrides = strides.ofBlocks;
    blocksOfPage = layout.blocksOfPage();
    isLayerMajor = layout.parts().size() == 1 && layout.order().axes().getFirst() == KvAxis.LAYER;
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
    int blocksOfPage = layout.blocksOfPage();
    if (blocksOfPage == KvLayout.PAGES_DIFFER) {
      return null;
    }
    int nextInPage = blocksOfPage > 1 ? 1 : 0;
    int nextPage = layout.blocks() > blocksOfPage ? blocksOfPage : 0;
    int layers = layout.layers();
    Runs all = new Runs();
    Runs some = new Runs();
    int[] firstOfLayer = new int[layers + 1];
    Strides strides = new Strides();
    IndexRange heads = IndexRange.all(layout.heads());
    for (int layer = 0; layer < layers; layer++) {
      IndexRange one = new IndexRange(layer, layer + 1);
      some.clear();
      layout.addRuns(0, one, heads, tensorAddresses, 0, some);
      for (int i = 0; i < some.count(); i++) {
        all.addSeparate(some.deviceAddress(i), some.hostAddress(i), some.bytes(i));
      }
      firstOfLayer[layer + 1] = all.count();
      Runs inPage = new Runs();
      Runs ofPage = new Runs();
      layout.addRuns(nextInPage, one, heads, tensorAddresses, 0, inPage);
      layout.addRuns(nextPage, one, heads, tensorAddresses, 0, ofPage);
      if (!isCutAlike(some, inPage) || !isCutAlike(some, ofPage)) {
        return null;
      }
      strides.add(firstOfLayer[layer], some, inPage, ofPage);
    }
    return new RunPlan(layout, firstOfLayer, all, strides);
  }

  private static boolean isCutAlike(Runs some, Runs others) {
    boolean isAlike = some.count() == others.count();
    for (int i = 0; isAlike && i < some.count(); i++) {
      isAlike = some.bytes(i) == others.bytes(i) && some.hostAddress(i) == others.hostAddress(i);
    }
    return isAlike;
  }

  /** The distances between the runs of blocks, while a plan is made. */
  private static final class Strides {
    private long[] ofPages = new long[0];
    private long[] ofBlocks = new long[0];

    void add(int first, Runs some, Runs inPage, Runs ofPage) {
      ofPages = Arrays.copyOf(ofPages, first + some.count());
      ofBlocks = Arrays.copyOf(ofBlocks, first + some.count());
      for (int i = 0; i < some.count(); i++) {
        ofPages[first + i] = ofPage.deviceAddress(i) - some.deviceAddress(i);
        ofBlocks[first + i] = inPage.deviceAddress(i) - some.deviceAddress(i);
      }
    }
  }

  /** The distance of a block's run from the first block's. */
  private long distance(int run, int page, int inPage) {
    return page * pageStrides[run] + inPage * blockStrides[run];
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
    int page = block / blocksOfPage;
    int inPage = block % blocksOfPage;
    int sourcePage = sourceBlock / source.blocksOfPage;
    int sourceInPage = sourceBlock % source.blocksOfPage;
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + distance(i, page, inPage),
          source.deviceAddresses[i] + source.distance(i, sourcePage, sourceInPage),
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
    int page = block / blocksOfPage;
    int inPage = block % blocksOfPage;
    for (int i = firstOfLayer[layers.from()]; i < end; i++) {
      runs.add(
          deviceAddresses[i] + distance(i, page, inPage), hostAddress + hostOffsets[i], lengths[i]);
    }
  }
}

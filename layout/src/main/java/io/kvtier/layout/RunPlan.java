package io.kvtier.layout;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The runs and grids of the first block of a set of tensors, layer by layer, with the distances to
 * the runs of the next block and of the next page. A plan adds the runs that {@link
 * KvLayout#addRuns} computes, without computing them again for each block.
 */
public final class RunPlan {
  /** The number of the first entry of each layer, and the count of all entries at the end. */
  private final int[] firstOfLayer;

  private final long[] deviceAddresses;
  private final long[] hostOffsets;
  private final int[] lengths;

  /** The grids of entries that are many runs; null where an entry is one run. */
  private final @Nullable RunGrid[] grids;

  /** The distances to the runs of the same block of the next page. */
  private final long[] pageStrides;

  /** The distances to the runs of the next block of a page; all 0 where a page is one block. */
  private final long[] blockStrides;

  private final int blocksOfPage;

  /** Whether the runs of consecutive layers are in the order of their host addresses. */
  private final boolean isLayerMajor;

  /** The last plan that {@link #isCutAs} found to have the same runs on the host. */
  private @Nullable RunPlan lastMatch;

  /** The grids of copies from the last match, which have the device sides of both. */
  private @Nullable RunGrid[] gridsFromMatch = new RunGrid[0];

  private RunPlan(KvLayout layout, int[] firstOfLayer, Runs first, Strides strides) {
    this.firstOfLayer = firstOfLayer;
    pageStrides = strides.ofPages;
    blockStrides = strides.ofBlocks;
    blocksOfPage = layout.blocksOfPage();
    isLayerMajor = layout.parts().size() == 1 && layout.order().axes().getFirst() == KvAxis.LAYER;
    int count = first.entries();
    deviceAddresses = new long[count];
    hostOffsets = new long[count];
    lengths = new int[count];
    grids = new RunGrid[count];
    for (int i = 0; i < count; i++) {
      deviceAddresses[i] = first.deviceAddress(i);
      hostOffsets[i] = first.hostAddress(i);
      lengths[i] = first.bytes(i);
      grids[i] = first.grid(i);
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
    // The layout checks that all bytes are within the tensors and the block. The last block is the
    // farthest one, because no stride is negative.
    layout.addRuns(
        layout.blocks() - 1, IndexRange.all(layers), heads, tensorAddresses, 0, new Runs());
    List<RunGrid> known = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      IndexRange one = new IndexRange(layer, layer + 1);
      some.clear();
      layout.addRuns(0, one, heads, tensorAddresses, 0, some);
      for (int i = 0; i < some.entries(); i++) {
        RunGrid grid = some.grid(i);
        if (grid == null) {
          all.addSeparate(some.deviceAddress(i), some.hostAddress(i), some.bytes(i));
        } else {
          all.add(some.deviceAddress(i), some.hostAddress(i), theOneOf(known, grid));
        }
      }
      firstOfLayer[layer + 1] = all.entries();
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

  /** Returns one object for equal grids, so that a table of entries finds its form by reference. */
  private static RunGrid theOneOf(List<RunGrid> known, RunGrid grid) {
    int place = known.indexOf(grid);
    if (place >= 0) {
      return known.get(place);
    }
    known.add(grid);
    return grid;
  }

  private static boolean isCutAlike(Runs some, Runs others) {
    boolean isAlike = some.entries() == others.entries();
    for (int i = 0; isAlike && i < some.entries(); i++) {
      isAlike =
          some.bytes(i) == others.bytes(i)
              && some.hostAddress(i) == others.hostAddress(i)
              && Objects.equals(some.grid(i), others.grid(i));
    }
    return isAlike;
  }

  /** The distances between the runs of blocks, while a plan is made. */
  private static final class Strides {
    private long[] ofPages = new long[0];
    private long[] ofBlocks = new long[0];

    void add(int first, Runs some, Runs inPage, Runs ofPage) {
      ofPages = Arrays.copyOf(ofPages, first + some.entries());
      ofBlocks = Arrays.copyOf(ofBlocks, first + some.entries());
      for (int i = 0; i < some.entries(); i++) {
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
        && Arrays.equals(lengths, other.lengths)
        && haveGridsCutAs(other)) {
      lastMatch = other;
      gridsFromMatch = gridsFrom(other);
    }
    return lastMatch == other;
  }

  private boolean haveGridsCutAs(RunPlan other) {
    for (int i = 0; i < grids.length; i++) {
      RunGrid mine = grids[i];
      RunGrid others = other.grids[i];
      if (mine == null ? others != null : others == null || !mine.isCutAs(others)) {
        return false;
      }
    }
    return true;
  }

  private @Nullable RunGrid[] gridsFrom(RunPlan source) {
    @Nullable RunGrid[] pairs = new RunGrid[grids.length];
    List<RunGrid> known = new ArrayList<>();
    for (int i = 0; i < grids.length; i++) {
      RunGrid mine = grids[i];
      RunGrid others = source.grids[i];
      pairs[i] = mine == null || others == null ? null : theOneOf(known, mine.from(others));
    }
    return pairs;
  }

  /** Drops the reference to the last matching plan, so that its region can be freed. */
  public void forgetMatch() {
    lastMatch = null;
    gridsFromMatch = new RunGrid[0];
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
      long target = deviceAddresses[i] + distance(i, page, inPage);
      long from = source.deviceAddresses[i] + source.distance(i, sourcePage, sourceInPage);
      RunGrid grid = gridsFromMatch[i];
      if (grid == null) {
        runs.add(target, from, lengths[i]);
      } else {
        runs.add(target, from, grid);
      }
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
      long device = deviceAddresses[i] + distance(i, page, inPage);
      long host = hostAddress + hostOffsets[i];
      RunGrid grid = grids[i];
      if (grid == null) {
        runs.add(device, host, lengths[i]);
      } else {
        runs.add(device, host, grid);
      }
    }
  }
}

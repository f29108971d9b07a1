package io.kvtier.layout.encoding;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.RunGrid;
import io.kvtier.layout.Runs;
import org.jspecify.annotations.Nullable;

/**
 * Whether a GPU can encode and decode the blocks of a layout. A kernel takes one granule at a time,
 * from the runs of one entry. Its threads read and write pieces of {@value #PIECE_BYTES} bytes.
 */
public final class GranuleRuns {
  /** The bytes of a thread's piece, which lies in one run. */
  static final int PIECE_BYTES = 32;

  /** The alignment of pieces on the device. */
  static final int ALIGNMENT_BYTES = 16;

  private GranuleRuns() {}

  /**
   * How many bytes of an entry lie side by side in the block, from one of its bytes on.
   *
   * @param entry the number of the entry
   * @param from the number of the byte, counted run by run
   */
  public static int spanBytes(Runs runs, int entry, int from) {
    RunGrid grid = runs.grid(entry);
    if (grid == null) {
      return runs.bytes(entry) - from;
    }
    int span = grid.runsOfHostSpan() * grid.runBytes();
    return span - from % span;
  }

  /**
   * Why a GPU can't encode the blocks of a layout, in words; null when it can.
   *
   * @param tensorAddresses where each tensor begins
   */
  public static @Nullable String problem(
      KvLayout layout, long[] tensorAddresses, BlockEncoding encoding) {
    Runs runs = new Runs();
    IndexRange heads = IndexRange.all(layout.heads());
    // The blocks of a region are cut alike, and are equally far apart: in a page, and the pages.
    int[] blocks = {0, Math.min(1, layout.blocks() - 1), layout.blocks() - 1};
    for (int layer = 0; layer < layout.layers(); layer++) {
      for (int block : blocks) {
        runs.clear();
        IndexRange one = new IndexRange(layer, layer + 1);
        layout.addRuns(block, one, heads, tensorAddresses, 0, runs);
        for (int entry = 0; entry < runs.entries(); entry++) {
          String why = problem(runs, entry, encoding.rawGranuleBytes());
          if (why != null) {
            return why;
          }
        }
      }
    }
    return null;
  }

  private static @Nullable String problem(Runs runs, int entry, int granuleBytes) {
    RunGrid grid = runs.grid(entry);
    int spanBytes = spanBytes(runs, entry, 0);
    boolean isWhole = runs.hostAddress(entry) % granuleBytes == 0 && spanBytes % granuleBytes == 0;
    int runBytes = runs.bytes(entry);
    long distances = runs.deviceAddress(entry);
    if (grid != null) {
      runBytes = grid.runBytes();
      distances |=
          grid.inner().deviceStride() | grid.middle().deviceStride() | grid.outer().deviceStride();
      for (int run = 0; run < grid.runs(); run += grid.runsOfHostSpan()) {
        isWhole &= grid.hostOffset(run) % granuleBytes == 0;
      }
    }
    if (!isWhole) {
      return "a layer of a block is in pieces of "
          + spanBytes
          + " bytes, which are not whole granules of "
          + granuleBytes
          + " bytes: expected an 'order' with heads outside of tokens, as LCHND, and the bytes of a"
          + " head as a granule";
    }
    if (runBytes % PIECE_BYTES != 0 || distances % ALIGNMENT_BYTES != 0) {
      return "the tensors have runs of "
          + runBytes
          + " bytes: expected a multiple of "
          + PIECE_BYTES
          + ", and tensors and strides at a multiple of "
          + ALIGNMENT_BYTES;
    }
    return null;
  }
}

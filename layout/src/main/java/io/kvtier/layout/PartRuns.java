package io.kvtier.layout;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The runs of one part of a block. Nested loops visit the cells in the block's order. The innermost
 * loops whose cells are adjacent on both sides become one run. The loops around that run become a
 * {@link RunGrid}, as long as they stay within one tensor.
 */
final class PartRuns {
  private static final int AXES = BlockOrder.AXES;

  private final KvPart part;
  private final int[] from = new int[AXES];
  private final int[] to = new int[AXES];
  private final long[] deviceStrides = new long[AXES];
  private final long[] hostStrides = new long[AXES];
  private final int blocksOfPage;
  private final long pageStride;
  private final long strideInPage;

  /** The number of the loop over several tensors, where each layer has its own; otherwise -1. */
  private int tensorLoop = -1;

  /** The number of the first tensor among those of the part. */
  private int fromTensor;

  private final int firstLayer;
  private int layerLoop;
  private int headLoop;
  private int runBytes;

  /** The bytes of the part on the host, with those of all ranks. */
  private final long hostBytes;

  PartRuns(KvLayout layout, KvPart part, IndexRange layers, IndexRange heads) {
    this.part = part;
    firstLayer = layout.firstLayer();
    TensorShape shape = part.shape();
    int tokens = KvLayout.tokens(shape, layout.blockTokens());
    blocksOfPage = part.blocksOfPage(layout.blockTokens());
    strideInPage =
        shape.has(KvAxis.TOKEN) ? layout.blockTokens() * shape.strideBytes(KvAxis.TOKEN) : 0;
    pageStride = shape.has(KvAxis.BLOCK) ? shape.strideBytes(KvAxis.BLOCK) : strideInPage;
    long hostStride = shape.cellBytes();
    for (int i = AXES - 1; i >= 0; i--) {
      KvAxis axis = layout.order().axes().get(i);
      deviceStrides[i] = shape.strideBytes(axis);
      hostStrides[i] = hostStride;
      switch (axis) {
        case LAYER -> {
          from[i] = layers.from();
          to[i] = layers.to();
          layerLoop = i;
          hostStride *= layout.blockLayers();
          boolean isTensorEach = !shape.has(KvAxis.LAYER);
          tensorLoop = isTensorEach && layers.count() > 1 ? i : -1;
          fromTensor = isTensorEach ? layers.from() : 0;
        }
        case PLANE -> {
          to[i] = shape.extent(KvAxis.PLANE);
          hostStride *= to[i];
        }
        case TOKEN -> {
          to[i] = tokens;
          hostStride *= tokens;
        }
        default -> {
          headLoop = i;
          from[i] = heads.from();
          to[i] = heads.to();
          hostStride *= part.blockHeads();
        }
      }
    }
    runBytes = shape.cellBytes();
    hostBytes = hostStride;
  }

  void add(int block, long[] addresses, int firstTensor, long host, Runs runs) {
    long device = block / blocksOfPage * pageStride + block % blocksOfPage * strideInPage;
    long hostOffset = 0;
    for (int i = 0; i < AXES; i++) {
      device += from[i] * deviceStrides[i];
      hostOffset += from[i] * hostStrides[i];
    }
    // The tensors may begin at a later layer and head of the block.
    hostOffset += firstLayer * hostStrides[layerLoop];
    hostOffset += part.firstHead() * hostStrides[headLoop];
    requireWithin(device, deviceStrides, part.shape().spanBytes(), "tensor");
    requireWithin(hostOffset, hostStrides, hostBytes, "block");
    int loops = joinInnerLoops();
    int gridLoops = gridLoops(loops);
    RunGrid grid = gridLoops < loops ? grid(gridLoops, loops) : null;
    walk(0, gridLoops, device, host + hostOffset, addresses, firstTensor + fromTensor, grid, runs);
  }

  /** Nothing outside of the memory that was registered is ever copied, whatever the strides say. */
  private void requireWithin(long first, long[] strides, long bytes, String what) {
    long end = first + part.shape().cellBytes();
    for (int i = 0; i < AXES; i++) {
      end = Math.addExact(end, Math.multiplyExact(to[i] - from[i] - 1L, strides[i]));
    }
    if (first < 0 || end > bytes) {
      throw new IllegalStateException(
          "bytes "
              + first
              + " to "
              + end
              + " of part '"
              + part.name()
              + "' are not all in a "
              + what
              + " of "
              + bytes
              + " bytes");
    }
  }

  /** Counts the runs. */
  long count() {
    long count = 1;
    for (int i = joinInnerLoops() - 1; i >= 0; i--) {
      count *= to[i] - from[i];
    }
    return count;
  }

  /** Counts the entries of a list, each of which is a run or a grid. */
  long entries() {
    long entries = 1;
    for (int i = gridLoops(joinInnerLoops()) - 1; i >= 0; i--) {
      entries *= to[i] - from[i];
    }
    return entries;
  }

  /** Joins the innermost loops over adjacent cells into the run, and returns how many remain. */
  private int joinInnerLoops() {
    int loops = AXES;
    while (loops > 0) {
      int i = loops - 1;
      int count = to[i] - from[i];
      if (i == tensorLoop) {
        break;
      }
      if (count > 1) {
        if (deviceStrides[i] != runBytes || hostStrides[i] != runBytes) {
          break;
        }
        runBytes *= count;
      }
      loops--;
    }
    return loops;
  }

  /**
   * How many of these loops remain around a grid: the innermost ones that count more than one cell
   * are its dimensions.
   */
  private int gridLoops(int loops) {
    int remaining = loops;
    int dimensions = 0;
    while (remaining > 0 && remaining - 1 != tensorLoop) {
      if (to[remaining - 1] - from[remaining - 1] > 1) {
        if (dimensions == RunGrid.DIMENSIONS) {
          break;
        }
        dimensions++;
      }
      remaining--;
    }
    return dimensions == 0 ? loops : remaining;
  }

  private RunGrid grid(int firstLoop, int loops) {
    List<RunGrid.Dimension> dimensions = new ArrayList<>(RunGrid.DIMENSIONS);
    for (int i = loops - 1; i >= firstLoop; i--) {
      int count = to[i] - from[i];
      if (count > 1) {
        dimensions.add(new RunGrid.Dimension(count, deviceStrides[i], hostStrides[i]));
      }
    }
    return RunGrid.of(runBytes, dimensions);
  }

  private void walk(
      int loop,
      int loops,
      long device,
      long host,
      long[] addresses,
      int tensor,
      @Nullable RunGrid grid,
      Runs runs) {
    if (loop == loops) {
      if (grid == null) {
        runs.add(addresses[tensor] + device, host, runBytes);
      } else {
        runs.add(addresses[tensor] + device, host, grid);
      }
      return;
    }
    int count = to[loop] - from[loop];
    for (int i = 0; i < count; i++) {
      walk(
          loop + 1,
          loops,
          device + i * deviceStrides[loop],
          host + i * hostStrides[loop],
          addresses,
          loop == tensorLoop ? tensor + i : tensor,
          grid,
          runs);
    }
  }
}

package io.kvtier.layout;

/**
 * The runs of one part of a block. Nested loops visit the cells in the block's order. The innermost
 * loops whose cells are adjacent on both sides become one run.
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

  /** The number of the loop over layers, where each layer is a tensor of its own; otherwise -1. */
  private int tensorLoop = -1;

  private final int firstLayer;
  private int layerLoop;
  private int headLoop;
  private int runBytes;

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
          tensorLoop = shape.has(KvAxis.LAYER) ? -1 : i;
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
  }

  void add(int block, long[] addresses, int firstTensor, long host, Runs runs) {
    long device = block / blocksOfPage * pageStride + block % blocksOfPage * strideInPage;
    for (int i = 0; i < AXES; i++) {
      device += from[i] * deviceStrides[i];
      host += from[i] * hostStrides[i];
    }
    // The tensors may begin at a later layer and head of the block.
    host += firstLayer * hostStrides[layerLoop];
    host += part.firstHead() * hostStrides[headLoop];
    int loops = joinInnerLoops();
    walk(0, loops, device, host, addresses, firstTensor, runs);
  }

  /** Counts the runs. */
  long count() {
    long count = 1;
    for (int i = joinInnerLoops() - 1; i >= 0; i--) {
      count *= to[i] - from[i];
    }
    return count;
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

  private void walk(
      int loop, int loops, long device, long host, long[] addresses, int tensor, Runs runs) {
    if (loop == loops) {
      runs.add(addresses[tensor] + device, host, runBytes);
      return;
    }
    int count = to[loop] - from[loop];
    boolean isTensorEach = loop == tensorLoop;
    for (int i = 0; i < count; i++) {
      walk(
          loop + 1,
          loops,
          device + i * deviceStrides[loop],
          host + i * hostStrides[loop],
          addresses,
          isTensorEach ? tensor + from[loop] + i : tensor,
          runs);
    }
  }
}

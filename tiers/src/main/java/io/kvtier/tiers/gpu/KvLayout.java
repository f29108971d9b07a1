package io.kvtier.tiers.gpu;

import java.util.List;

/**
 * Where the bytes of a block lie: on the device, scattered over the engine's tensors, and on the
 * host, in one piece. From it come the {@link Runs} of a copy of any layers and heads of a block.
 *
 * <p>A block on the host is its parts one behind the other, each at a multiple of {@value
 * #PART_ALIGNMENT_BYTES} bytes, and each part's cells in the block's order without gaps:
 *
 * <pre>
 *   | keys and values: [layer, k|v, token, head, element] | scales: [layer, k|v, token, head] |
 * </pre>
 *
 * <p>A part's tensors are one with an axis for the layers, or as many as there are layers. Where a
 * tensor has no axis for blocks, its token axis counts the tokens of all blocks, block by block.
 *
 * @param blocks how many blocks the tensors have room for
 * @param blockTokens the tokens of one block
 */
public record KvLayout(
    int layers, int blocks, int blockTokens, BlockOrder order, List<KvPart> parts) {
  /** Each part of a block begins at a multiple of this. */
  public static final int PART_ALIGNMENT_BYTES = 16;

  public KvLayout {
    parts = List.copyOf(parts);
    requirePositive(layers, "layers");
    requirePositive(blocks, "blocks");
    requirePositive(blockTokens, "tokens of a block");
    if (parts.isEmpty()) {
      throw new IllegalArgumentException("a layout without parts: expected keys and values");
    }
    long bytes = 0;
    for (KvPart part : parts) {
      requireFits(part, layers, blocks, blockTokens);
      bytes = alignedPartEnd(bytes, partBytes(part, layers, blockTokens));
    }
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "a block of " + bytes + " bytes: expected at most " + Integer.MAX_VALUE);
    }
    int heads = headsOf(parts);
    for (KvPart part : parts) {
      int own = part.shape().extent(KvAxis.HEAD);
      if (own != heads && own != 1) {
        throw new IllegalArgumentException(
            "part '"
                + part.name()
                + "' has "
                + own
                + " heads: expected "
                + heads
                + ", or 1 for all");
      }
    }
  }

  private static void requirePositive(int value, String what) {
    if (value < 1) {
      throw new IllegalArgumentException(value + " " + what + ": expected 1 or more");
    }
  }

  private static void requireFits(KvPart part, int layers, int blocks, int blockTokens) {
    TensorShape shape = part.shape();
    if (shape.has(KvAxis.LAYER)) {
      requireExtent(part, KvAxis.LAYER, layers, "layers");
    }
    if (shape.has(KvAxis.BLOCK)) {
      requireExtent(part, KvAxis.BLOCK, blocks, "blocks");
      if (shape.has(KvAxis.TOKEN)) {
        requireExtent(part, KvAxis.TOKEN, blockTokens, "tokens of a block");
      }
    } else {
      requireExtent(part, KvAxis.TOKEN, (long) blocks * blockTokens, "tokens of all blocks");
    }
  }

  private static void requireExtent(KvPart part, KvAxis axis, long expected, String what) {
    int extent = part.shape().extent(axis);
    if (extent != expected) {
      throw new IllegalArgumentException(
          "extent "
              + extent
              + " of axis '"
              + axis.letter()
              + "' of part '"
              + part.name()
              + "': expected "
              + expected
              + ", the "
              + what);
    }
  }

  private static int headsOf(List<KvPart> parts) {
    int heads = 1;
    for (KvPart part : parts) {
      heads = Math.max(heads, part.shape().extent(KvAxis.HEAD));
    }
    return heads;
  }

  /** How many heads the tensors have; a part with one has it for all. */
  public int heads() {
    return headsOf(parts);
  }

  /** Whether the tensors have all of a block, and not only the heads of one rank. */
  public boolean hasWholeBlocks() {
    for (KvPart part : parts) {
      if (part.blockHeads() != part.shape().extent(KvAxis.HEAD)) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether a block of another layout is the same bytes in the same order on the host, however it
   * lies on its device: then one can be copied to the other's place without the host.
   */
  public boolean hasBlocksLike(KvLayout other) {
    boolean alike =
        layers == other.layers
            && blockTokens == other.blockTokens
            && order.equals(other.order)
            && parts.size() == other.parts.size();
    for (int i = 0; alike && i < parts.size(); i++) {
      KvPart mine = parts.get(i);
      KvPart theirs = other.parts.get(i);
      alike =
          mine.shape().cellBytes() == theirs.shape().cellBytes()
              && tokens(mine.shape(), blockTokens) == tokens(theirs.shape(), blockTokens)
              && mine.shape().extent(KvAxis.PLANE) == theirs.shape().extent(KvAxis.PLANE)
              && mine.shape().extent(KvAxis.HEAD) == theirs.shape().extent(KvAxis.HEAD)
              && mine.blockHeads() == theirs.blockHeads()
              && mine.firstHead() == theirs.firstHead();
    }
    return alike;
  }

  /** How many tensors there are: of each part one, or one a layer. */
  public int tensors() {
    int count = 0;
    for (KvPart part : parts) {
      count += part.tensors(layers);
    }
    return count;
  }

  /** The part that a tensor belongs to, counted as in {@link #tensors}. */
  KvPart partOfTensor(int tensor) {
    int first = 0;
    for (KvPart part : parts) {
      first += part.tensors(layers);
      if (tensor < first) {
        return part;
      }
    }
    throw new IndexOutOfBoundsException("tensor " + tensor + " of " + first);
  }

  /** The bytes of a whole block on the host, padding between its parts included. */
  public int blockBytes() {
    long bytes = 0;
    for (KvPart part : parts) {
      bytes = alignedPartEnd(bytes, partBytes(part, layers, blockTokens));
    }
    return (int) bytes;
  }

  private static long alignedPartEnd(long start, long bytes) {
    return align(start) + bytes;
  }

  private static long align(long offset) {
    return (offset + PART_ALIGNMENT_BYTES - 1) & -PART_ALIGNMENT_BYTES;
  }

  private static long partBytes(KvPart part, int layers, int blockTokens) {
    long cells = Math.multiplyExact((long) layers, tokens(part.shape(), blockTokens));
    cells = Math.multiplyExact(cells, (long) part.shape().extent(KvAxis.PLANE) * part.blockHeads());
    return Math.multiplyExact(cells, part.shape().cellBytes());
  }

  /** The tokens that a part tells apart in a block: a scale may be one for all of them. */
  private static int tokens(TensorShape shape, int blockTokens) {
    return shape.has(KvAxis.TOKEN) ? blockTokens : 1;
  }

  /**
   * The runs of one layer of a block, with all heads. Those of several layers are at most as many
   * each.
   */
  public long runsOfLayer() {
    long runs = 0;
    for (KvPart part : parts) {
      Span heads = Span.all(part.shape().extent(KvAxis.HEAD));
      runs += new PartRuns(this, part, Span.all(1), heads).count();
    }
    return runs;
  }

  /** The most runs of a block: those of its layers, copied one by one. */
  public long runsOfBlock() {
    return layers * runsOfLayer();
  }

  /**
   * Adds the runs of some layers and heads of a block, in the order of their places on the host.
   *
   * @param tensorAddresses where each tensor begins: part by part, and layer by layer
   * @param hostAddress where the block begins, also when not all of it is copied
   * @throws IllegalArgumentException when there is no such block, layer, or head
   */
  public void addRuns(
      int block,
      Span someLayers,
      Span someHeads,
      long[] tensorAddresses,
      long hostAddress,
      Runs runs) {
    if (block < 0 || block >= blocks) {
      throw new IllegalArgumentException(
          "block " + block + " is not in the region: it has " + blocks + ", from 0 on");
    }
    someLayers.requireWithin(layers, "layers");
    someHeads.requireWithin(heads(), "heads");
    if (tensorAddresses.length != tensors()) {
      throw new IllegalArgumentException(
          tensorAddresses.length + " tensors: expected " + tensors() + " for this layout");
    }
    if (someLayers.count() == 0 || someHeads.count() == 0) {
      return;
    }
    int firstTensor = 0;
    long partOffset = 0;
    for (KvPart part : parts) {
      partOffset = align(partOffset);
      Span partHeads = part.shape().extent(KvAxis.HEAD) == 1 ? Span.all(1) : someHeads;
      new PartRuns(this, part, someLayers, partHeads)
          .add(block, tensorAddresses, firstTensor, hostAddress + partOffset, runs);
      firstTensor += part.tensors(layers);
      partOffset += partBytes(part, layers, blockTokens);
    }
  }

  /**
   * The loops over the cells of one part, those that lie side by side on both ends made one run.
   */
  private static final class PartRuns {
    private static final int AXES = BlockOrder.AXES;

    private final KvPart part;
    private final int[] from = new int[AXES];
    private final int[] to = new int[AXES];
    private final long[] deviceStrides = new long[AXES];
    private final long[] hostStrides = new long[AXES];
    private final long blockStride;

    /** Which loop counts layers that are tensors of their own; none: -1. */
    private int tensorLoop = -1;

    private int headLoop;
    private int runBytes;

    PartRuns(KvLayout layout, KvPart part, Span layers, Span heads) {
      this.part = part;
      TensorShape shape = part.shape();
      int tokens = tokens(shape, layout.blockTokens);
      blockStride =
          shape.has(KvAxis.BLOCK)
              ? shape.strideBytes(KvAxis.BLOCK)
              : layout.blockTokens * shape.strideBytes(KvAxis.TOKEN);
      long hostStride = shape.cellBytes();
      for (int i = AXES - 1; i >= 0; i--) {
        KvAxis axis = layout.order.axes().get(i);
        deviceStrides[i] = shape.strideBytes(axis);
        hostStrides[i] = hostStride;
        switch (axis) {
          case LAYER -> {
            from[i] = layers.from();
            to[i] = layers.to();
            hostStride *= layout.layers;
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
      long device = block * blockStride;
      for (int i = 0; i < AXES; i++) {
        device += from[i] * deviceStrides[i];
        host += from[i] * hostStrides[i];
      }
      // The tensor's first head need not be the block's.
      host += part.firstHead() * hostStrides[headLoop];
      int loops = joinInnerLoops();
      walk(0, loops, device, host, addresses, firstTensor, runs);
    }

    /** How many runs there are. */
    long count() {
      long count = 1;
      for (int i = joinInnerLoops() - 1; i >= 0; i--) {
        count *= to[i] - from[i];
      }
      return count;
    }

    /** Drops the innermost loops whose steps only make the run longer. */
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
      boolean eachATensor = loop == tensorLoop;
      for (int i = 0; i < count; i++) {
        walk(
            loop + 1,
            loops,
            device + i * deviceStrides[loop],
            host + i * hostStrides[loop],
            addresses,
            eachATensor ? tensor + from[loop] + i : tensor,
            runs);
      }
    }
  }
}

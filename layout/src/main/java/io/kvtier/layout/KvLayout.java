package io.kvtier.layout;

import java.util.List;

/**
 * The layout of KV blocks on both sides of a copy. On the device, the bytes of a block are
 * scattered over the engine's tensors. On the host, a block is one contiguous span. {@link
 * #addRuns} computes the {@link Runs} of a copy of any layers and heads of a block.
 *
 * <p>A block on the host is the sequence of its parts. Each part begins at a multiple of {@value
 * #PART_ALIGNMENT_BYTES} bytes and holds its cells in the block's order, without gaps:
 *
 * <pre>
 *   | keys and values: [layer, k|v, token, head, element] | scales: [layer, k|v, token, head] |
 * </pre>
 *
 * <p>A part has one tensor with a layer axis, or one tensor for each layer. Keys and values that
 * lie in tensors of their own are two parts. Where a tensor has no block axis, its token axis
 * counts the tokens of all blocks, block by block. Where a tensor has a block axis and more tokens
 * than a block, its block axis counts pages: a page is several blocks, one behind the other along
 * the token axis.
 *
 * <p>A rank of an engine with tensor or pipeline parallelism has only some heads or layers of each
 * block. The block on the host has all of them: see {@link #shard}.
 *
 * @param layers how many layers the tensors have
 * @param blocks how many blocks the tensors hold, in pages of one or more
 * @param blockTokens the tokens of one block
 * @param order the order of the cells of a block on the host
 * @param parts the parts of a block, in their order on the host
 * @param blockLayers how many layers a block has
 * @param firstLayer the number of the tensors' first layer in the block
 */
public record KvLayout(
    int layers,
    int blocks,
    int blockTokens,
    BlockOrder order,
    List<KvPart> parts,
    int blockLayers,
    int firstLayer) {
  /** The property of a namespace that tells the form of its blocks: {@link #blockForm}. */
  public static final String FORM_PROPERTY = "form";

  /** Maximum layers of a block, and of a region. */
  public static final int LAYERS_MAX = 512;

  /** The alignment of each part of a block on the host. */
  public static final int PART_ALIGNMENT_BYTES = 16;

  /** {@link #blocksOfPage()} where the parts have pages of different sizes. */
  static final int PAGES_DIFFER = 0;

  public KvLayout {
    parts = List.copyOf(parts);
    requirePositive(layers, "layers");
    if (firstLayer < 0 || firstLayer > blockLayers - layers) {
      throw new IllegalArgumentException(
          "layers "
              + firstLayer
              + " to "
              + (firstLayer + (long) layers)
              + " are not all in a block of "
              + blockLayers
              + " layers");
    }
    requirePositive(blocks, "blocks");
    requirePositive(blockTokens, "tokens of a block");
    if (parts.isEmpty()) {
      throw new IllegalArgumentException("a layout without parts: expected keys and values");
    }
    long bytes = 0;
    for (KvPart part : parts) {
      requireFits(part, layers, blocks, blockTokens);
      bytes = alignedPartEnd(bytes, partBytes(part, blockLayers, blockTokens));
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
    requireOneShard(parts);
  }

  /** A layout whose tensors have all layers of a block. */
  public KvLayout(int layers, int blocks, int blockTokens, BlockOrder order, List<KvPart> parts) {
    this(layers, blocks, blockTokens, order, parts, layers, 0);
  }

  /** Parts have the same heads of the same number of heads, or one head for all of them. */
  private static void requireOneShard(List<KvPart> parts) {
    KvPart widest = widest(parts);
    for (KvPart part : parts) {
      if (part.blockHeads() != 1 && !part.hasSameHeadsAs(widest)) {
        throw new IllegalArgumentException(
            "parts '"
                + widest.name()
                + "' and '"
                + part.name()
                + "' have different heads of a block: expected the same ones, or one head for all");
      }
    }
  }

  private static KvPart widest(List<KvPart> parts) {
    KvPart widest = parts.getFirst();
    for (KvPart part : parts) {
      widest = part.blockHeads() > widest.blockHeads() ? part : widest;
    }
    return widest;
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
      if (shape.has(KvAxis.TOKEN) && shape.extent(KvAxis.TOKEN) % blockTokens != 0) {
        throw new IllegalArgumentException(
            "extent "
                + shape.extent(KvAxis.TOKEN)
                + " of axis 'N' of part '"
                + part.name()
                + "': expected "
                + blockTokens
                + ", the tokens of a block, or a multiple of it");
      }
      int ofPage = part.blocksOfPage(blockTokens);
      if (blocks % ofPage != 0) {
        throw new IllegalArgumentException(
            blocks
                + " blocks: expected a multiple of "
                + ofPage
                + ", the blocks of a page of part '"
                + part.name()
                + "'");
      }
      requireExtent(
          part, KvAxis.BLOCK, blocks / ofPage, ofPage == 1 ? "blocks" : "pages of all blocks");
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

  /** How many heads the tensors have. A part with one head has one value for all heads. */
  public int heads() {
    return headsOf(parts);
  }

  /** How many blocks a page of the tensors has; {@link #PAGES_DIFFER} where the parts disagree. */
  int blocksOfPage() {
    int blocks = parts.getFirst().blocksOfPage(blockTokens);
    for (KvPart part : parts) {
      blocks = part.blocksOfPage(blockTokens) == blocks ? blocks : PAGES_DIFFER;
    }
    return blocks;
  }

  /** Which layers and heads of a block the tensors have. */
  public Shard shard() {
    KvPart widest = widest(parts);
    int heads = widest.shape().extent(KvAxis.HEAD);
    return new Shard(
        new IndexRange(firstLayer, firstLayer + layers),
        blockLayers,
        new IndexRange(widest.firstHead(), widest.firstHead() + heads),
        widest.blockHeads());
  }

  /**
   * The form of a block on the host, in words that are equal for all layouts with this form:
   * whatever shards and tensors they have. Blocks of equal forms have the same bytes in the same
   * places.
   *
   * <p>The words are the order, layers and tokens of a block, and for each part its planes, heads
   * and the bytes of a cell, as in {@code LCNHD:32x16:2x8x256}. A part whose tokens share a value
   * ends with {@code x1}.
   *
   * <p>An engine may have its keys and its values in tensors of their own. They are two parts, one
   * behind the other on the host. Where planes are the slowest axis of the order, one part with two
   * planes has the same bytes in the same places, so both have the form of the one part.
   */
  public String blockForm() {
    StringBuilder form = new StringBuilder();
    form.append(order).append(':').append(blockLayers).append('x').append(blockTokens);
    for (int i = 0; i < parts.size(); i++) {
      KvPart part = parts.get(i);
      int planes = part.shape().extent(KvAxis.PLANE);
      while (i + 1 < parts.size() && isContinuedBy(parts.get(i), parts.get(i + 1))) {
        i++;
        planes += parts.get(i).shape().extent(KvAxis.PLANE);
      }
      form.append(':').append(planes).append('x').append(part.blockHeads());
      form.append('x').append(part.shape().cellBytes());
      if (tokens(part.shape(), blockTokens) != blockTokens) {
        form.append("x1");
      }
    }
    return form.toString();
  }

  /** Whether the next part's planes lie on the host as if they were further planes of a part. */
  private boolean isContinuedBy(KvPart part, KvPart next) {
    TensorShape shape = part.shape();
    return order.axes().getFirst() == KvAxis.PLANE
        && part.blockHeads() == next.blockHeads()
        && shape.cellBytes() == next.shape().cellBytes()
        && tokens(shape, blockTokens) == tokens(next.shape(), blockTokens)
        && partBytes(part, blockLayers, blockTokens) % PART_ALIGNMENT_BYTES == 0;
  }

  /**
   * Whether both layouts have the same shard of blocks of the same form. Such shards can be copied
   * from device to device, even where the layouts of the tensors differ.
   */
  public boolean hasSameShardAs(KvLayout other) {
    return shard().equals(other.shard()) && blockForm().equals(other.blockForm());
  }

  /** How many tensors the layout has: for each part, one tensor or one for each layer. */
  public int tensorCount() {
    int count = 0;
    for (KvPart part : parts) {
      count += part.tensorCount(layers);
    }
    return count;
  }

  /**
   * The part of a tensor.
   *
   * @param tensor the tensor's number: part by part, and layer by layer
   */
  public KvPart partOfTensor(int tensor) {
    int first = 0;
    for (KvPart part : parts) {
      first += part.tensorCount(layers);
      if (tensor < first) {
        return part;
      }
    }
    throw new IndexOutOfBoundsException("tensor " + tensor + " of " + first);
  }

  /** The bytes of a whole block on the host, including the padding between its parts. */
  public int blockBytes() {
    long bytes = 0;
    for (KvPart part : parts) {
      bytes = alignedPartEnd(bytes, partBytes(part, blockLayers, blockTokens));
    }
    return (int) bytes;
  }

  /** The bytes that the tensors have of one layer of a block. */
  public long layerBytes() {
    long bytes = 0;
    for (KvPart part : parts) {
      TensorShape shape = part.shape();
      bytes +=
          (long) tokens(shape, blockTokens)
              * shape.extent(KvAxis.PLANE)
              * shape.extent(KvAxis.HEAD)
              * shape.cellBytes();
    }
    return bytes;
  }

  private static long alignedPartEnd(long start, long bytes) {
    return align(start) + bytes;
  }

  static long align(long offset) {
    return (offset + PART_ALIGNMENT_BYTES - 1) & -PART_ALIGNMENT_BYTES;
  }

  static long partBytes(KvPart part, int layers, int blockTokens) {
    long cells = Math.multiplyExact((long) layers, tokens(part.shape(), blockTokens));
    cells = Math.multiplyExact(cells, (long) part.shape().extent(KvAxis.PLANE) * part.blockHeads());
    return Math.multiplyExact(cells, part.shape().cellBytes());
  }

  /** How many tokens of a block have values of their own: 1 where all tokens share a scale. */
  static int tokens(TensorShape shape, int blockTokens) {
    return shape.has(KvAxis.TOKEN) ? blockTokens : 1;
  }

  /**
   * The number of runs of one layer of a block, with all heads. A copy of several layers has at
   * most this number for each layer.
   */
  public long runsPerLayer() {
    return parts.stream().mapToLong(part -> of(part, 1).count()).sum();
  }

  /**
   * The largest number of entries that a copy of some layers of a block, with all heads, has for
   * each layer in a list of {@link Runs}.
   */
  public long entriesPerLayer() {
    long ofOne = entries(1);
    // The loop over two layers can be a dimension that another loop has in a grid of one layer.
    return layers == 1 ? ofOne : Math.max(ofOne, Math.ceilDiv(entries(2), 2));
  }

  private long entries(int someLayers) {
    return parts.stream().mapToLong(part -> of(part, someLayers).entries()).sum();
  }

  private PartRuns of(KvPart part, int someLayers) {
    IndexRange heads = IndexRange.all(part.shape().extent(KvAxis.HEAD));
    return new PartRuns(this, part, IndexRange.all(someLayers), heads);
  }

  /** The largest number of runs of a block, which a copy of each layer by itself has. */
  public long runsPerBlock() {
    return layers * runsPerLayer();
  }

  /** The mean length of the runs of a layer of a block. */
  public int meanRunBytes() {
    return (int) (layerBytes() / runsPerLayer());
  }

  /**
   * Adds the runs of some layers and heads of a block, in the order of their host addresses.
   *
   * @param tensorAddresses the address of each tensor: part by part, and layer by layer
   * @param hostAddress the address of the whole block on the host, even where the copy leaves out
   *     its first bytes
   * @throws IllegalArgumentException when the layout has no such block, layer or head
   */
  public void addRuns(
      int block,
      IndexRange someLayers,
      IndexRange someHeads,
      long[] tensorAddresses,
      long hostAddress,
      Runs runs) {
    if (block < 0 || block >= blocks) {
      throw new IllegalArgumentException(
          "block " + block + " is not in the region: it has " + blocks + ", from 0 on");
    }
    someLayers.requireWithin(layers, "layers");
    someHeads.requireWithin(heads(), "heads");
    if (tensorAddresses.length != tensorCount()) {
      throw new IllegalArgumentException(
          tensorAddresses.length + " tensors: expected " + tensorCount() + " for this layout");
    }
    if (someLayers.count() == 0 || someHeads.count() == 0) {
      return;
    }
    int firstTensor = 0;
    long partOffset = 0;
    for (KvPart part : parts) {
      partOffset = align(partOffset);
      IndexRange partHeads = part.shape().extent(KvAxis.HEAD) == 1 ? IndexRange.all(1) : someHeads;
      new PartRuns(this, part, someLayers, partHeads)
          .add(block, tensorAddresses, firstTensor, hostAddress + partOffset, runs);
      firstTensor += part.tensorCount(layers);
      partOffset += partBytes(part, blockLayers, blockTokens);
    }
  }
}

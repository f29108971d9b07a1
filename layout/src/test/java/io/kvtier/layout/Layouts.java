package io.kvtier.layout;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Random layouts for tests. */
final class Layouts {
  private Layouts() {}

  /**
   * A random layout: axes in any order, gaps between elements, one part or two, pages of one block
   * or two, and any shard of a block.
   */
  static KvLayout any(Random random) {
    int layers = 1 + random.nextInt(4);
    int blocksOfPage = 1 + random.nextInt(2);
    int blocks = (1 + random.nextInt(4)) * blocksOfPage;
    int otherRanksLayers = random.nextInt(4);
    int blockTokens = 1 + random.nextInt(5);
    int heads = 1 + random.nextInt(4);
    int planes = 1 + random.nextInt(2);
    int otherRanksHeads = random.nextInt(3) * heads;
    int firstHead = otherRanksHeads == 0 ? 0 : random.nextInt(otherRanksHeads + 1);
    List<KvPart> parts = new ArrayList<>();
    int elementBytes = 1 << random.nextInt(3);
    TensorShape keysAndValues =
        shape(
            random,
            layers,
            blocks,
            blocksOfPage,
            blockTokens,
            planes,
            heads,
            1 + random.nextInt(6),
            elementBytes,
            true);
    int tensorHeads = keysAndValues.extent(KvAxis.HEAD);
    parts.add(new KvPart("kv", keysAndValues, tensorHeads + otherRanksHeads, firstHead));
    if (random.nextBoolean()) {
      boolean perHead = tensorHeads > 1 && random.nextBoolean();
      TensorShape scales =
          shape(
              random,
              layers,
              blocks,
              blocksOfPage,
              blockTokens,
              planes,
              perHead ? tensorHeads : 1,
              1,
              4,
              random.nextBoolean());
      parts.add(
          perHead
              ? new KvPart("scales", scales, tensorHeads + otherRanksHeads, firstHead)
              : KvPart.of("scales", scales));
    }
    List<KvAxis> order =
        new ArrayList<>(List.of(KvAxis.LAYER, KvAxis.PLANE, KvAxis.TOKEN, KvAxis.HEAD));
    Collections.shuffle(order, random);
    return new KvLayout(
        layers,
        blocks,
        blockTokens,
        new BlockOrder(order),
        parts,
        layers + otherRanksLayers,
        random.nextInt(otherRanksLayers + 1));
  }

  private static TensorShape shape(
      Random random,
      int layers,
      int blocks,
      int blocksOfPage,
      int blockTokens,
      int planes,
      int heads,
      int dim,
      int elementBytes,
      boolean perToken) {
    boolean hasBlocks = !perToken || random.nextBoolean();
    List<Character> letters = new ArrayList<>();
    List<Long> extents = new ArrayList<>();
    record Axis(char letter, long extent) {}
    List<Axis> axes = new ArrayList<>();
    if (random.nextBoolean()) {
      axes.add(new Axis('L', layers));
    }
    if (planes > 1 || random.nextBoolean()) {
      axes.add(new Axis('C', planes));
    }
    if (hasBlocks) {
      axes.add(new Axis('B', perToken ? blocks / blocksOfPage : blocks));
    }
    if (perToken) {
      axes.add(
          new Axis(
              'N', hasBlocks ? (long) blocksOfPage * blockTokens : (long) blocks * blockTokens));
    }
    if (heads > 1 || random.nextBoolean()) {
      axes.add(new Axis('H', heads));
    }
    Collections.shuffle(axes, random);
    if (dim > 1 || random.nextBoolean()) {
      axes.add(new Axis('D', dim));
    }
    StringBuilder text = new StringBuilder();
    List<Long> strides = new ArrayList<>();
    long stride = 1;
    for (int i = axes.size() - 1; i >= 0; i--) {
      // A gap, as in a view of a larger tensor.
      boolean isDim = axes.get(i).letter() == 'D';
      stride += !isDim && random.nextInt(4) == 0 ? 1 + random.nextInt(3) : 0;
      strides.addFirst(stride);
      stride *= axes.get(i).extent();
    }
    for (Axis axis : axes) {
      letters.add(axis.letter());
      extents.add(axis.extent());
    }
    letters.forEach(text::append);
    return new TensorShape(text.toString(), extents, strides, elementBytes);
  }

  /** The runs of a list one by one, as few as there can be, without grids. */
  static Runs expanded(Runs runs) {
    Runs all = new Runs();
    for (int entry = 0; entry < runs.entries(); entry++) {
      RunGrid grid = runs.grid(entry);
      if (grid == null) {
        all.add(runs.deviceAddress(entry), runs.hostAddress(entry), runs.bytes(entry));
        continue;
      }
      for (int run = 0; run < grid.runs(); run++) {
        all.add(
            runs.deviceAddress(entry) + grid.deviceOffset(run),
            runs.hostAddress(entry) + grid.hostOffset(run),
            grid.runBytes());
      }
    }
    return all;
  }

  static IndexRange anySpan(Random random, int count) {
    int from = random.nextInt(count + 1);
    return new IndexRange(from, from + random.nextInt(count - from + 1));
  }
}

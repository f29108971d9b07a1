package io.kvtier.layout.encoding;

import io.kvtier.layout.KvLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The errors of a namespace's lossy encoding, by layer: means of the errors that the tiles of
 * encoded blocks hold. Several threads may measure blocks.
 */
public final class EncodingErrors {
  /** Number of encoded blocks of which one is measured. */
  private static final int SAMPLED = 8;

  private static final ValueLayout.OfShort FIELD =
      ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  /** Blocks of one part in which layers are the outermost axis: {@code LCHND:32x16:2x8x256}. */
  private static final Pattern LAYERS_OUTERMOST =
      Pattern.compile("L[A-Z]*:([0-9]{1,4})x[^:]*:[^:]*");

  private final BlockEncoding encoding;
  private final LongAdder[] sums;
  private final LongAdder blocks = new LongAdder();
  private int seen;

  private EncodingErrors(BlockEncoding encoding, int layers) {
    this.encoding = encoding;
    sums = new LongAdder[layers];
    for (int layer = 0; layer < layers; layer++) {
      sums[layer] = new LongAdder();
    }
  }

  /**
   * The errors of a namespace; null if its blocks have none.
   *
   * @param form the form of a block, as regions have it. It says how many layers a block has; null:
   *     all granules of a block are taken for one layer
   */
  public static @Nullable EncodingErrors of(
      @Nullable BlockEncoding encoding, @Nullable String form) {
    return encoding == null || !encoding.kind().isLossy()
        ? null
        : new EncodingErrors(encoding, layersOf(encoding, form == null ? "" : form));
  }

  private static int layersOf(BlockEncoding encoding, String form) {
    Matcher matcher = LAYERS_OUTERMOST.matcher(form);
    int layers = matcher.matches() ? Integer.parseInt(matcher.group(1)) : 1;
    boolean isPossible =
        layers > 0 && layers <= KvLayout.LAYERS_MAX && encoding.granules() % layers == 0;
    return isPossible ? layers : 1;
  }

  /** Whether the next encoded block is one that is measured. Confined to one thread. */
  public boolean isNextMeasured() {
    return seen++ % SAMPLED == 0;
  }

  /**
   * Measures a block, which must be sound.
   *
   * @param block {@link BlockEncoding#encodedBytes} of memory
   */
  public void measure(MemorySegment block) {
    int tiles = GranuleShape.tiles(encoding.granuleElements());
    int granulesEach = encoding.granules() / sums.length;
    int granuleBytes = encoding.encodedGranuleBytes();
    for (int layer = 0; layer < sums.length; layer++) {
      long sum = 0;
      for (int granule = layer * granulesEach; granule < (layer + 1) * granulesEach; granule++) {
        long at = (long) granule * granuleBytes + Fp8GranuleDescriptor.ERRORS_OFFSET;
        for (int tile = 0; tile < tiles; tile++) {
          long field = at + (long) tile * Fp8GranuleDescriptor.ERROR_BYTES;
          sum += Short.toUnsignedInt(block.get(FIELD, field));
        }
      }
      sums[layer].add(sum);
    }
    blocks.increment();
  }

  /**
   * The mean relative error of each layer, or of the whole block where the layers are not known;
   * empty before a block was measured.
   */
  public double[] means() {
    long measured = blocks.sum();
    if (measured == 0) {
      return new double[0];
    }
    int tiles = GranuleShape.tiles(encoding.granuleElements());
    int granulesEach = encoding.granules() / sums.length;
    double fields = (double) measured * granulesEach * tiles;
    double[] means = new double[sums.length];
    for (int layer = 0; layer < means.length; layer++) {
      means[layer] = sums[layer].sum() / fields / Fp8GranuleDescriptor.ERROR_ONE;
    }
    return means;
  }
}

package io.kvtier.layout.encoding;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.TensorShape;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class EncodingErrorsTest {
  private static final int LAYERS = 4;
  private static final int GRANULES = 2 * 3 * LAYERS;
  private static final BlockEncoding FP8 = new BlockEncoding(EncodingKind.FP8, 640, GRANULES);
  private static final String FORM = form();

  /** The form of blocks with two planes of three heads: a granule is a head of 16 tokens. */
  private static String form() {
    TensorShape shape = TensorShape.contiguous("CBNHD", List.of(2L, 1L, 16L, 3L, 40L), 2);
    KvPart part = new KvPart("kv", shape, 3, 0);
    return new KvLayout(LAYERS, 1, 16, BlockOrder.LCHND, List.of(part)).blockForm();
  }

  /** A block whose layers of odd numbers fp8 has no error in. */
  private static MemorySegment block(long seed) {
    Random random = new Random(seed);
    byte[] raw = new byte[(int) FP8.rawBytes()];
    for (int i = 0; i < raw.length / 2; i++) {
      int bits = Float.floatToIntBits((float) random.nextGaussian()) >>> 16;
      boolean isExact = i / (6 * 640) % 2 == 1;
      GranuleBytes.setElement(raw, i, isExact ? 127 << 7 | (bits & 0x8070) : bits);
    }
    byte[] encoded = new byte[(int) FP8.encodedBytes()];
    assertTrue(
        new GranuleCodec(FP8).encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(encoded)));
    return MemorySegment.ofArray(encoded);
  }

  private static EncodingErrors errors(String form) {
    EncodingErrors errors = EncodingErrors.of(FP8, form);
    assertNotNull(errors);
    return errors;
  }

  @Test
  void layersOutermost_eachHasItsMean() {
    EncodingErrors errors = errors(FORM);
    assertArrayEquals(new double[0], errors.means());
    errors.measure(block(1));
    errors.measure(block(2));
    double[] means = errors.means();
    assertEquals(LAYERS, means.length);
    for (int layer = 0; layer < LAYERS; layer++) {
      assertEquals(layer % 2 == 0 ? 0.022 : 0, means[layer], layer % 2 == 0 ? 0.005 : 0);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "CLHND:4x16:2x3x80",
        "LCHND:5x16:2x3x80",
        "LCHND:0x16:2x3x80",
        "LCHND:4x16:1x3x80:1x3x80"
      })
  void layersThatAreNotKnown_areOne(String form) {
    EncodingErrors errors = errors(form);
    errors.measure(block(1));
    assertEquals(1, errors.means().length);
    assertEquals(0.011, errors.means()[0], 0.003);
  }

  @ParameterizedTest
  @CsvSource({"512,512", "513,1", "9999,1"})
  void layersThatNoRegionHas_areOne(int layers, int toldApart) {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.FP8, 512, layers);
    EncodingErrors errors = EncodingErrors.of(encoding, "LCHND:" + layers + "x16:1x1x64");
    assertNotNull(errors);
    errors.measure(MemorySegment.ofArray(new byte[(int) encoding.encodedBytes()]));
    assertEquals(toldApart, errors.means().length);
  }

  @Test
  void exactAndRawBlocks_haveNoErrors() {
    assertNull(EncodingErrors.of(null, FORM));
    assertNull(EncodingErrors.of(new BlockEncoding(EncodingKind.EXACT, 640, GRANULES), FORM));
  }

  @Test
  void oneOfSomeBlocks_isMeasured_theFirstToo() {
    EncodingErrors errors = errors(FORM);
    assertTrue(errors.isNextMeasured());
    for (int i = 1; i < 8; i++) {
      assertFalse(errors.isNextMeasured());
    }
    assertTrue(errors.isNextMeasured());
  }
}

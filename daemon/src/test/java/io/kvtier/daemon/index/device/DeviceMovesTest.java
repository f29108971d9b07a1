package io.kvtier.daemon.index.device;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class DeviceMovesTest {
  private static final long LAYER_BYTES = 64 << 10;

  /** The link takes short pieces slowly, and encoded layers are shorter than raw ones. */
  @ParameterizedTest
  @CsvSource({"EXACT, 3", "FP8, 4"})
  void layersOfEncodedBlocks_goTogether_untilTheyAreLongOnTheLink(EncodingKind kind, int layers) {
    BlockEncoding encoding = new BlockEncoding(kind, 2048, 512);
    assertEquals(layers, DeviceMoves.layersTogether(LAYER_BYTES, encoding, 200));
    assertEquals(1, DeviceMoves.layersTogether(layers * LAYER_BYTES, encoding, 200));
  }

  @Test
  void layersOfRawBlocks_goOneByOne_ofManyBlocks() {
    assertEquals(1, DeviceMoves.layersTogether(LAYER_BYTES, null, 200));
    assertEquals(2, DeviceMoves.layersTogether(LAYER_BYTES / 2, null, 200));
    assertEquals(8, DeviceMoves.layersTogether(LAYER_BYTES, null, 4));
  }
}

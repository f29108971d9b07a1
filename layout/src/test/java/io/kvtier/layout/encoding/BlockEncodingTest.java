package io.kvtier.layout.encoding;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BlockEncodingTest {
  @Test
  void granuleOf16TokensAnd128Elements_takes76PercentOfItsBytes() {
    BlockEncoding encoding = BlockEncoding.of("exact bf16 4096", 2 << 20);
    assertEquals(new BlockEncoding(EncodingKind.EXACT, 2048, 512), encoding);
    assertEquals(512 * 3104, encoding.encodedBytes());
    assertEquals(2 << 20, encoding.rawBytes());
    assertEquals(23, ExactGranuleDescriptor.escapesMax(2048));
  }

  @Test
  void fp8GranuleOf16TokensAnd128Elements_takes51PercentOfItsBytes() {
    BlockEncoding encoding = BlockEncoding.of("fp8 bf16 4096", 2 << 20);
    assertEquals(new BlockEncoding(EncodingKind.FP8, 2048, 512), encoding);
    assertEquals(512 * 2080, encoding.encodedBytes());
    assertEquals(2 << 20, encoding.rawBytes());
  }

  @Test
  void everyPossibleFp8Granule_hasSpaceForItsErrorsAndBases_andWholeLinesOf16Bytes() {
    for (int elements = 0; elements <= 20_000; elements++) {
      if (GranuleShape.isPossible(elements)) {
        int header = GranuleShape.codesOffset(elements);
        int basesEnd = Fp8GranuleDescriptor.basesOffset(elements) + GranuleShape.tiles(elements);
        assertTrue(basesEnd <= header);
        assertEquals(0, Fp8GranuleDescriptor.bytes(elements) % 16);
        assertEquals(header + elements, Fp8GranuleDescriptor.bytes(elements));
      }
    }
  }

  @Test
  void everyPossibleGranule_countsItsEscapesInAByte_andTakesFewerBytes() {
    for (int elements = 0; elements <= 20_000; elements++) {
      if (GranuleShape.isPossible(elements)) {
        int escapes = ExactGranuleDescriptor.escapesMax(elements);
        assertTrue(escapes >= 9 && escapes <= 255, () -> "escapes " + escapes);
        assertEquals(0, ExactGranuleDescriptor.bytes(elements) % 16);
        assertTrue(ExactGranuleDescriptor.bytes(elements) <= 0.77 * 2 * elements);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "exact, 2097152, expected 'exact or fp8 bf16 GRANULE_BYTES'",
    "zip bf16 4096, 2097152, expected 'exact or fp8 bf16 GRANULE_BYTES'",
    "exact bf16 -1, 2097152, expected 'exact or fp8 bf16 GRANULE_BYTES'",
    "exact bf16 99999999999, 2097152, expected 'exact or fp8 bf16 GRANULE_BYTES'",
    "FP8 bf16 4096, 2097152, expected 'exact or fp8 bf16 GRANULE_BYTES'",
    "fp8 fp8 4096, 2097152, elements of type fp8",
    "exact fp16 4096, 2097152, elements of type fp16",
    "exact bf16 4095, 2097152, expected a multiple of 256",
    "exact bf16 512, 2097152, from 1024 to 32768",
    "exact bf16 65536, 2097152, from 1024 to 32768",
    "exact bf16 4096, 6144, not a whole number of granules",
  })
  void whatIsNoEncoding_isRefusedWithTheReason(String value, long blockBytes, String expected) {
    String message =
        assertThrows(IllegalArgumentException.class, () -> BlockEncoding.of(value, blockBytes))
            .getMessage();
    assertTrue(
        message != null
            && message.startsWith("encoding is '" + value)
            && message.contains(expected),
        message);
  }
}

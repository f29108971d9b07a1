package io.kvtier.layout.encoding;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class GranuleCodecTest {
  private final SplittableRandom random = new SplittableRandom(1);

  private static List<String> golden(EncodingKind kind) throws IOException {
    try (InputStream in =
        Objects.requireNonNull(
            GranuleCodecTest.class.getResourceAsStream("/golden/" + kind.id() + ".txt"))) {
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      return text.lines().filter(line -> !line.startsWith("#")).toList();
    }
  }

  @ParameterizedTest
  @EnumSource
  void goldenGranules_encodedAndDecodedByteForByte(EncodingKind kind) throws IOException {
    List<String> lines = golden(kind);
    HexFormat hex = HexFormat.of();
    int linesEach = kind.isLossy() ? 4 : 3;
    for (int i = 0; i < lines.size(); i += linesEach) {
      String name = lines.get(i);
      byte[] raw = hex.parseHex(lines.get(i + 1));
      BlockEncoding encoding = new BlockEncoding(kind, raw.length / 2, 1);
      byte[] made = new byte[(int) encoding.encodedBytes()];
      GranuleCodec codec = new GranuleCodec(encoding);
      boolean fits = codec.encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(made));
      assertEquals(!lines.get(i + 2).equals("none"), fits, name);
      if (fits) {
        assertEquals(lines.get(i + 2), hex.formatHex(made), name);
        byte[] back = new byte[raw.length];
        assertTrue(codec.decode(MemorySegment.ofArray(made), MemorySegment.ofArray(back)), name);
        assertEquals(
            lines.get(i + linesEach - (kind.isLossy() ? 1 : 2)), hex.formatHex(back), name);
      }
    }
  }

  private byte[] block(BlockEncoding encoding) {
    byte[] raw = new byte[(int) encoding.rawBytes()];
    for (int i = 0; i < raw.length; i += 2) {
      int exponent = 120 - random.nextInt(10);
      int element = (random.nextInt() & 0x807f) | (exponent << 7);
      raw[i] = (byte) element;
      raw[i + 1] = (byte) (element >>> 8);
    }
    return raw;
  }

  private static byte[] encoded(BlockEncoding encoding, byte[] raw) {
    byte[] encoded = new byte[(int) encoding.encodedBytes()];
    assertTrue(
        new GranuleCodec(encoding)
            .encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(encoded)));
    return encoded;
  }

  private static byte[] decoded(BlockEncoding encoding, byte[] encoded) {
    byte[] raw = new byte[(int) encoding.rawBytes()];
    assertTrue(
        new GranuleCodec(encoding)
            .decode(MemorySegment.ofArray(encoded), MemorySegment.ofArray(raw)));
    return raw;
  }

  @ParameterizedTest
  @ValueSource(ints = {512, 640, 1152, 2048, 9216, 16384})
  void exactBlocksOfAnyShape_comeBack(int elements) {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.EXACT, elements, 5);
    byte[] raw = block(encoding);
    byte[] encoded = encoded(encoding, raw);
    assertArrayEquals(raw, decoded(encoding, encoded));
    assertTrue(encoded.length < 0.77 * raw.length);
  }

  @ParameterizedTest
  @ValueSource(ints = {512, 640, 1152, 2048, 9216, 16384})
  void fp8BlocksOfAnyShape_comeBackWithAnErrorThatTheyTell(int elements) {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.FP8, elements, 1);
    byte[] raw = normal(encoding);
    byte[] encoded = encoded(encoding, raw);
    byte[] back = decoded(encoding, encoded);
    assertTrue(encoded.length < 0.54 * raw.length);
    for (int tile = 0; tile < GranuleShape.tiles(elements); tile++) {
      double sum = 0;
      double difference = 0;
      int end = Math.min(elements, (tile + 1) * GranuleShape.TILE_ELEMENTS);
      for (int i = tile * GranuleShape.TILE_ELEMENTS; i < end; i++) {
        float value = number(raw, i);
        float error = Math.abs(value - number(back, i));
        sum += Math.abs(value);
        difference += error;
        assertTrue(error <= Math.abs(value) / 16 || Math.abs(value) < 0x1p-6, "element " + value);
      }
      double told =
          GranuleBytes.halfWord(encoded, Fp8GranuleDescriptor.ERRORS_OFFSET + 2 * tile)
              / (double) Fp8GranuleDescriptor.ERROR_ONE;
      assertEquals(difference / sum, told, 1e-3);
      assertTrue(told > 0.015 && told < 0.035, "error " + told);
    }
  }

  private byte[] normal(BlockEncoding encoding) {
    byte[] raw = new byte[(int) encoding.rawBytes()];
    for (int i = 0; i < raw.length / 2; i++) {
      int bits = Float.floatToIntBits((float) random.nextGaussian());
      GranuleBytes.setElement(raw, i, bits >>> 16);
    }
    return raw;
  }

  private static float number(byte[] raw, int index) {
    return Float.intBitsToFloat(GranuleBytes.element(raw, index) << 16);
  }

  @Test
  void fp8_ofAnyBits_decodedGranulesAreEncodedToWhatTheyWere_withoutErrors() {
    int fitted = 0;
    for (int round = 0; round < 2000; round++) {
      BlockEncoding encoding = new BlockEncoding(EncodingKind.FP8, 640, 1);
      byte[] raw = new byte[(int) encoding.rawBytes()];
      int largest = random.nextInt(256);
      int window = 1 + random.nextInt(40);
      for (int i = 0; i < 640; i++) {
        int exponent = Math.max(0, largest - random.nextInt(window));
        GranuleBytes.setElement(raw, i, (random.nextInt() & 0x807f) | exponent << 7);
      }
      byte[] first = new byte[(int) encoding.encodedBytes()];
      boolean fits =
          new GranuleCodec(encoding)
              .encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(first));
      assertEquals(fitsFp8(raw), fits, () -> "largest exponent " + largest);
      if (fits) {
        fitted++;
        byte[] back = decoded(encoding, first);
        byte[] second = encoded(encoding, back);
        int bases = Fp8GranuleDescriptor.basesOffset(640);
        Arrays.fill(first, Fp8GranuleDescriptor.ERRORS_OFFSET, bases, (byte) 0);
        assertArrayEquals(first, second);
        assertArrayEquals(back, decoded(encoding, second));
      }
    }
    assertTrue(fitted > 1900 && fitted < 2000, "fitted " + fitted);
  }

  /** Whether all elements are numbers, and below the middle of 1.75 and 2 times 2^127. */
  private static boolean fitsFp8(byte[] raw) {
    for (int i = 0; i < raw.length / 2; i++) {
      float magnitude = Math.abs(number(raw, i));
      if (!(magnitude <= 1.8125f * 0x1p127f)) {
        return false;
      }
    }
    return true;
  }

  @ParameterizedTest
  @EnumSource
  void damagedBytes_areNeverTakenForABlock(EncodingKind kind) {
    BlockEncoding encoding = new BlockEncoding(kind, 2048, 1);
    byte[] raw = block(encoding);
    raw[201] = 0x10; // an escape
    byte[] encoded = encoded(encoding, raw);
    byte[] expected = decoded(encoding, encoded);
    int refused = 0;
    for (int round = 0; round < 20_000; round++) {
      byte[] damaged = encoded.clone();
      int place = random.nextInt(round % 2 == 0 ? 32 : damaged.length);
      damaged[place] = (byte) random.nextInt();
      byte[] back = new byte[raw.length];
      GranuleCodec codec = new GranuleCodec(encoding);
      if (codec.decode(MemorySegment.ofArray(damaged), MemorySegment.ofArray(back))) {
        assertArrayEquals(expected, back, "byte " + place);
      } else {
        refused++;
      }
    }
    assertTrue(refused > 10_000, "refused " + refused);
  }

  @ParameterizedTest
  @EnumSource
  void randomBytes_areNoBlock(EncodingKind kind) {
    BlockEncoding encoding = new BlockEncoding(kind, 1024, 2);
    byte[] noise = new byte[(int) encoding.encodedBytes()];
    MemorySegment target = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    for (int round = 0; round < 2000; round++) {
      random.nextBytes(noise);
      assertFalse(new GranuleCodec(encoding).decode(MemorySegment.ofArray(noise), target));
    }
    Arrays.fill(noise, (byte) 0xff);
    assertFalse(new GranuleCodec(encoding).decode(MemorySegment.ofArray(noise), target));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 17, 255})
  void fp8_basesThatNoEncoderMakes_areRefused_althoughTheChecksumIsRight(int base) {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.FP8, 512, 1);
    byte[] encoded = encoded(encoding, new byte[1024]);
    MemorySegment raw = MemorySegment.ofArray(new byte[1024]);
    // All codes are zero, so another base changes no decoded element.
    encoded[Fp8GranuleDescriptor.basesOffset(512)] = 100;
    assertTrue(new GranuleCodec(encoding).decode(MemorySegment.ofArray(encoded), raw));
    encoded[Fp8GranuleDescriptor.basesOffset(512)] = (byte) base;
    assertFalse(new GranuleCodec(encoding).decode(MemorySegment.ofArray(encoded), raw));
  }
}

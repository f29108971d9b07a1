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
import org.junit.jupiter.params.provider.ValueSource;

class GranuleCodecTest {
  private final SplittableRandom random = new SplittableRandom(1);

  private static List<String> golden() throws IOException {
    try (InputStream in =
        Objects.requireNonNull(GranuleCodecTest.class.getResourceAsStream("/golden/exact.txt"))) {
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      return text.lines().filter(line -> !line.startsWith("#")).toList();
    }
  }

  @Test
  void goldenGranules_encodedAndDecodedByteForByte() throws IOException {
    List<String> lines = golden();
    HexFormat hex = HexFormat.of();
    for (int i = 0; i < lines.size(); i += 3) {
      String name = lines.get(i);
      byte[] raw = hex.parseHex(lines.get(i + 1));
      BlockEncoding encoding = new BlockEncoding(raw.length / 2, 1);
      byte[] made = new byte[(int) encoding.encodedBytes()];
      GranuleCodec codec = new GranuleCodec(encoding);
      boolean fits = codec.encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(made));
      assertEquals(!lines.get(i + 2).equals("none"), fits, name);
      if (fits) {
        assertEquals(lines.get(i + 2), hex.formatHex(made), name);
        byte[] back = new byte[raw.length];
        assertTrue(codec.decode(MemorySegment.ofArray(made), MemorySegment.ofArray(back)), name);
        assertArrayEquals(raw, back, name);
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

  @ParameterizedTest
  @ValueSource(ints = {512, 640, 1152, 2048, 9216, 16384})
  void blocksOfAnyShape_comeBack(int elements) {
    BlockEncoding encoding = new BlockEncoding(elements, 5);
    byte[] raw = block(encoding);
    byte[] encoded = new byte[(int) encoding.encodedBytes()];
    byte[] back = new byte[raw.length];
    GranuleCodec codec = new GranuleCodec(encoding);
    assertTrue(codec.encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(encoded)));
    assertTrue(codec.decode(MemorySegment.ofArray(encoded), MemorySegment.ofArray(back)));
    assertArrayEquals(raw, back);
    assertTrue(encoded.length < 0.77 * raw.length);
  }

  @Test
  void damagedBytes_areNeverTakenForABlock() {
    BlockEncoding encoding = new BlockEncoding(2048, 1);
    byte[] raw = block(encoding);
    raw[201] = 0x10; // an escape
    byte[] encoded = new byte[(int) encoding.encodedBytes()];
    GranuleCodec codec = new GranuleCodec(encoding);
    assertTrue(codec.encode(MemorySegment.ofArray(raw), MemorySegment.ofArray(encoded)));
    int refused = 0;
    for (int round = 0; round < 20_000; round++) {
      byte[] damaged = encoded.clone();
      int place = random.nextInt(round % 2 == 0 ? 32 : damaged.length);
      damaged[place] = (byte) random.nextInt();
      byte[] back = new byte[raw.length];
      if (codec.decode(MemorySegment.ofArray(damaged), MemorySegment.ofArray(back))) {
        assertArrayEquals(raw, back, "byte " + place);
      } else {
        refused++;
      }
    }
    assertTrue(refused > 10_000);
  }

  @Test
  void randomBytes_areNoBlock() {
    BlockEncoding encoding = new BlockEncoding(1024, 2);
    byte[] noise = new byte[(int) encoding.encodedBytes()];
    MemorySegment target = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    for (int round = 0; round < 2000; round++) {
      random.nextBytes(noise);
      assertFalse(new GranuleCodec(encoding).decode(MemorySegment.ofArray(noise), target));
    }
    Arrays.fill(noise, (byte) 0xff);
    assertFalse(new GranuleCodec(encoding).decode(MemorySegment.ofArray(noise), target));
  }
}

package io.kvtier.protocol.linux;

import static java.lang.foreign.MemorySegment.ofArray;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.layout.encoding.GranuleCodec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The native coder and the one in Java make equal bytes. */
class BlockCoderTest {
  private final SplittableRandom random = new SplittableRandom(1);
  private final BlockCoder java = new BlockCoder(null);

  private byte[] block(BlockEncoding encoding, int rare) {
    byte[] raw = new byte[(int) encoding.rawBytes()];
    for (int i = 0; i < raw.length; i += 2) {
      int exponent = random.nextInt(rare) == 0 ? random.nextInt(121) : 120 - random.nextInt(10);
      int element = (random.nextInt() & 0x807f) | (exponent << 7);
      raw[i] = (byte) element;
      raw[i + 1] = (byte) (element >>> 8);
    }
    return raw;
  }

  private static long crc32c(byte[] bytes) {
    CRC32C crc = new CRC32C();
    crc.update(bytes);
    return crc.getValue();
  }

  @ParameterizedTest
  @EnumSource
  void nativeAndJava_equalBytesChecksumsAndRefusals(EncodingKind kind) {
    int fitted = 0;
    for (int round = 0; round < 300; round++) {
      int elements = 128 * (4 + random.nextInt(20));
      BlockEncoding encoding = new BlockEncoding(kind, elements, 1 + random.nextInt(40));
      byte[] raw = block(encoding, 50 + random.nextInt(2000));
      raw[1] |= (byte) (random.nextInt(10) == 0 ? 0x7f : 0); // too large for fp8
      byte[] first = new byte[(int) encoding.encodedBytes()];
      byte[] second = new byte[first.length];
      long made = BlockCoder.OF_THIS_MACHINE.encode(encoding, ofArray(raw), ofArray(first));
      assertEquals(java.encode(encoding, ofArray(raw), ofArray(second)), made);
      if (made == BlockCoder.NONE) {
        continue;
      }
      fitted++;
      assertArrayEquals(second, first);
      assertEquals(crc32c(first), made);
      byte[] expected = raw.clone();
      if (kind.isLossy()) {
        assertTrue(new GranuleCodec(encoding).decode(ofArray(first), ofArray(expected)));
      }
      byte[] back = new byte[raw.length];
      for (BlockCoder coder : new BlockCoder[] {BlockCoder.OF_THIS_MACHINE, java}) {
        assertEquals(made, coder.decode(encoding, ofArray(first), ofArray(back)));
        assertArrayEquals(expected, back);
      }
      first[random.nextInt(4)] ^= 1;
      for (BlockCoder coder : new BlockCoder[] {BlockCoder.OF_THIS_MACHINE, java}) {
        assertEquals(BlockCoder.NONE, coder.decode(encoding, ofArray(first), ofArray(back)));
      }
    }
    assertTrue(fitted > 100 && fitted < 300, "fitted " + fitted);
  }

  @Test
  void memoryOutsideTheHeap_withoutAlignment_comesBack() {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.EXACT, 2048, 100);
    byte[] raw = block(encoding, 1000);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment encoded = arena.allocate(encoding.encodedBytes() + 1).asSlice(1);
      MemorySegment back = arena.allocate(encoding.rawBytes() + 3).asSlice(3);
      long made = BlockCoder.OF_THIS_MACHINE.encode(encoding, ofArray(raw), encoded);
      assertNotEquals(BlockCoder.NONE, made);
      assertEquals(made, BlockCoder.OF_THIS_MACHINE.decode(encoding, encoded, back));
      assertArrayEquals(raw, back.toArray(ValueLayout.JAVA_BYTE));
    }
  }

  @Test
  void memoryThatIsTooShort_isRefused() {
    BlockEncoding encoding = new BlockEncoding(EncodingKind.EXACT, 2048, 2);
    MemorySegment raw = ofArray(new byte[(int) encoding.rawBytes()]);
    MemorySegment encoded = ofArray(new byte[(int) encoding.encodedBytes()]);
    BlockCoder coder = BlockCoder.OF_THIS_MACHINE;
    assertThrows(
        IndexOutOfBoundsException.class, () -> coder.encode(encoding, raw, encoded.asSlice(1)));
    assertThrows(
        IndexOutOfBoundsException.class, () -> coder.decode(encoding, encoded, raw.asSlice(1)));
    assertThrows(
        IndexOutOfBoundsException.class, () -> coder.decode(encoding, encoded.asSlice(1), raw));
  }
}

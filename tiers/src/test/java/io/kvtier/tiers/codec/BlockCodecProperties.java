package io.kvtier.tiers.codec;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.function.IntUnaryOperator;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Blocks of all kinds come back bit by bit; damage is found, by the codec or by the checksum. */
final class BlockCodecProperties {
  private static final String[] ALL = {"none", "zstd", "zstd/3", "zstd/-5", "planes", "planes/3"};
  private static final int GUARD = 64;
  private static final byte UNTOUCHED = (byte) 0xa5;

  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  /** What a block is made of. */
  enum Content {
    NOISE,
    ZERO,
    NAN,
    VALUES,
    TEXT
  }

  @Property(tries = 400)
  void encode_anyBlock_decodesToTheSameBits(
      @ForAll Content content,
      @ForAll @IntRange(min = 1, max = 70_000) int bytes,
      @ForAll long seed)
      throws CodecException {
    for (String specification : ALL) {
      roundTrip(specification, content, bytes, seed);
    }
  }

  @Property(tries = 100)
  void encode_shortBlock_decodesToTheSameBits(
      @ForAll Content content, @ForAll @IntRange(min = 1, max = 70) int bytes, @ForAll long seed)
      throws CodecException {
    for (String specification : ALL) {
      roundTrip(specification, content, bytes, seed);
    }
  }

  @Example
  void encode_fourMebibytes_decodesToTheSameBits() throws CodecException {
    for (Content content : Content.values()) {
      roundTrip("zstd", content, 4 << 20, 1);
      roundTrip("planes", content, 4 << 20, 1);
      roundTrip("planes", content, (4 << 20) + 1, 1);
    }
  }

  private static void roundTrip(String specification, Content content, int bytes, long seed)
      throws CodecException {
    BlockCodec codec = BlockCodecs.create(specification);
    try (Arena arena = Arena.ofConfined()) {
      // At an odd address: slots are aligned, a codec need not know.
      MemorySegment raw = arena.allocate(bytes + 1L, 8).asSlice(1);
      fill(raw, content, seed);
      int checksum = Checksums.of(raw);
      MemorySegment target = guarded(arena, codec.boundBytes(bytes));
      int length = codec.encode(raw, inner(target));
      assertUntouched(target);
      assertEquals(checksum, Checksums.of(raw));
      MemorySegment encoded = length < 0 ? raw : inner(target).asSlice(0, length);
      byte id = length < 0 ? 0 : codec.id();
      assertTrue(length < bytes, specification + " makes " + length + " of " + bytes);
      MemorySegment decoded = guarded(arena, bytes);
      BlockCodecs.byId(id).decode(encoded, inner(decoded));
      assertEquals(-1, raw.mismatch(inner(decoded)), specification + " of " + content);
      assertUntouched(decoded);
    }
  }

  /** One flipped byte anywhere, cut off anywhere: an exception, or bytes of another checksum. */
  @Property(tries = 200)
  void decode_damaged_isFoundAndWritesNothingElse(
      @ForAll Content content,
      @ForAll @IntRange(min = 16, max = 5000) int bytes,
      @ForAll long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    for (String specification : ALL) {
      BlockCodec codec = BlockCodecs.create(specification);
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment raw = arena.allocate(bytes);
        fill(raw, content, seed);
        MemorySegment target = arena.allocate(codec.boundBytes(bytes) + 1);
        int length = codec.encode(raw, target);
        if (length < 0) {
          continue;
        }
        MemorySegment decoded = guarded(arena, bytes);
        for (int i = 0; i < 40; i++) {
          int at = i < 20 && i < length ? i : random.nextInt(length);
          byte old = target.get(BYTE, at);
          target.set(BYTE, at, (byte) (old ^ random.nextInt(1, 256)));
          assertFoundOrHarmless(codec, target.asSlice(0, length), raw, decoded);
          target.set(BYTE, at, old);
          assertFoundOrHarmless(codec, target.asSlice(0, random.nextInt(length)), raw, decoded);
        }
      }
    }
  }

  @Property(tries = 200)
  void decode_rubbish_isFoundAndWritesNothingElse(
      @ForAll @IntRange(min = 1, max = 3000) int encodedBytes,
      @ForAll @IntRange(min = 1, max = 3000) int bytes,
      @ForAll long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    for (String specification : new String[] {"zstd", "planes"}) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment encoded = arena.allocate(encodedBytes);
        for (int i = 0; i < encodedBytes; i++) {
          encoded.set(BYTE, i, (byte) random.nextInt());
        }
        if (random.nextBoolean() && encodedBytes >= 4) {
          encoded.set(ValueLayout.JAVA_INT_UNALIGNED, 0, 0xFD2FB528); // zstd's magic number
        }
        MemorySegment raw = arena.allocate(bytes);
        assertFoundOrHarmless(
            BlockCodecs.create(specification), encoded, raw, guarded(arena, bytes));
      }
    }
  }

  private static void assertFoundOrHarmless(
      BlockCodec codec, MemorySegment encoded, MemorySegment raw, MemorySegment decoded) {
    try {
      codec.decode(encoded, inner(decoded));
      // Some bits of a frame's header mean nothing. What is decoded otherwise, the checksum finds.
      boolean same = raw.mismatch(inner(decoded)) == -1;
      assertEquals(same, Checksums.of(raw) == Checksums.of(inner(decoded)));
    } catch (CodecException e) {
      assertTrue(e.getMessage() != null);
    }
    assertUntouched(decoded);
  }

  @Example
  void decode_otherLength_isRefused() {
    for (String specification : new String[] {"zstd", "planes"}) {
      BlockCodec codec = BlockCodecs.create(specification);
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment raw = arena.allocate(1000);
        MemorySegment target = arena.allocate(codec.boundBytes(1000));
        int length = codec.encode(raw, target);
        MemorySegment encoded = target.asSlice(0, length);
        assertThrows(CodecException.class, () -> codec.decode(encoded, arena.allocate(999)));
        assertThrows(CodecException.class, () -> codec.decode(encoded, arena.allocate(1001)));
      }
    }
  }

  @Example
  void encode_valuesOfTwoBytes_planesGainMore() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment raw = arena.allocate(1 << 20);
      fill(raw, Content.VALUES, 1);
      BlockCodec zstd = BlockCodecs.create("zstd");
      MemorySegment target = arena.allocate(zstd.boundBytes(1 << 20));
      int whole = zstd.encode(raw, target);
      int planes = BlockCodecs.create("planes").encode(raw, target);
      assertTrue(planes > 0 && planes < 0.8 * (1 << 20), "planes make " + planes);
      assertTrue(whole < 0 || planes < whole, planes + " against " + whole);
    }
  }

  @Example
  void encode_noise_isNotWorthIt() {
    for (String specification : ALL) {
      BlockCodec codec = BlockCodecs.create(specification);
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment raw = arena.allocate(10_000);
        fill(raw, Content.NOISE, 1);
        assertEquals(-1, codec.encode(raw, arena.allocate(codec.boundBytes(10_000) + 1)));
      }
    }
  }

  @Example
  void encode_targetTooSmall_isRefused() {
    for (String specification : new String[] {"zstd", "planes"}) {
      BlockCodec codec = BlockCodecs.create(specification);
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment raw = arena.allocate(1000);
        assertThrows(IllegalArgumentException.class, () -> codec.encode(raw, arena.allocate(1000)));
      }
    }
  }

  private static MemorySegment guarded(Arena arena, long bytes) {
    return arena.allocate(bytes + 2 * GUARD).fill(UNTOUCHED);
  }

  private static MemorySegment inner(MemorySegment guarded) {
    return guarded.asSlice(GUARD, guarded.byteSize() - 2 * GUARD);
  }

  private static void assertUntouched(MemorySegment guarded) {
    for (int i = 0; i < GUARD; i++) {
      assertEquals(UNTOUCHED, guarded.get(BYTE, i));
      assertEquals(UNTOUCHED, guarded.get(BYTE, guarded.byteSize() - 1 - i));
    }
  }

  private static void fill(MemorySegment raw, Content content, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    Random normal = new Random(seed);
    IntUnaryOperator element =
        switch (content) {
          case NOISE -> i -> random.nextInt();
          case ZERO -> i -> 0;
          // Quiet and signalling, with payloads and both signs; infinities too.
          case NAN -> i -> 0x7f80 | (random.nextInt() & 0x807f);
          case VALUES -> i -> Float.floatToRawIntBits((float) normal.nextGaussian()) >>> 16;
          case TEXT -> i -> 'a' + i % 17;
        };
    for (long at = 0; at < raw.byteSize(); at += 2) {
      int value = element.applyAsInt((int) (at / 2));
      raw.set(BYTE, at, (byte) value);
      if (at + 1 < raw.byteSize()) {
        raw.set(BYTE, at + 1, (byte) (value >>> 8));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "lz4", "none/1", "zstd/", "zstd/0", "zstd/99", "planes/x", "ZSTD"})
  void create_unknown_namesIt(String specification) {
    IllegalArgumentException error =
        assertThrows(IllegalArgumentException.class, () -> BlockCodecs.create(specification));
    assertTrue(String.valueOf(error.getMessage()).contains("'" + specification + "'"));
  }

  @Example
  void byId_unknown_isRefused() {
    assertThrows(CodecException.class, () -> BlockCodecs.byId((byte) 200));
  }
}

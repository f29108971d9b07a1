package io.kvtier.tiers.codec;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class PluggedCodecsTest {
  private static final int RAW_BYTES = 4096;

  @AfterEach
  void unplug() {
    BlockCodecs.plugIn(Map.of());
  }

  /** A codec that encodes every block to eight bytes; tests override the rest. */
  private static class Zeros implements BlockCodec {
    @Override
    public String name() {
      return "zeros";
    }

    @Override
    public byte id() {
      return 1;
    }

    @Override
    public long boundBytes(int rawBytes) {
      return rawBytes;
    }

    @Override
    public int encode(MemorySegment raw, MemorySegment target) {
      return 8;
    }

    @Override
    public void decode(MemorySegment encoded, MemorySegment raw) throws CodecException {
      raw.fill((byte) 0);
    }
  }

  private static BlockCodecProvider provider(int id, Supplier<BlockCodec> codec) {
    return new BlockCodecProvider() {
      @Override
      public String name() {
        return "not asked";
      }

      @Override
      public int id() {
        return id;
      }

      @Override
      public BlockCodec create(String level) {
        return codec.get();
      }
    };
  }

  private static String refusal(Map<String, BlockCodecProvider> providers) {
    return String.valueOf(
        assertThrows(IllegalArgumentException.class, () -> BlockCodecs.plugIn(providers))
            .getMessage());
  }

  @Test
  void plugIn_idOutOfRange_orOfTwoCodecs_isRefused() {
    for (int id : List.of(-1, 0, 1, 63, 128, 64 + 256)) {
      String message = refusal(Map.of("mine", provider(id, Zeros::new)));
      assertTrue(
          message.startsWith(
              "the plug-in's codec 'mine' has the id " + id + "; expected one from 64"),
          message);
    }
    Map<String, BlockCodecProvider> both = new LinkedHashMap<>();
    both.put("one", provider(64, Zeros::new));
    both.put("two", provider(64, Zeros::new));
    assertEquals(
        "the plug-ins' codecs 'one' and 'two' both have the id 64; expected each id once: remove one"
            + " of the two",
        refusal(both));
    assertFalse(BlockCodecs.isKnown((byte) 64));
  }

  @Test
  void codecThatThrows_storesBlocksAsTheyAre_andDecodesNone() {
    BlockCodec codec =
        pluggedIn(
            new Zeros() {
              @Override
              public int encode(MemorySegment raw, MemorySegment target) {
                throw new NoClassDefFoundError("Absent");
              }

              @Override
              public void decode(MemorySegment encoded, MemorySegment raw) {
                throw new IllegalStateException("oh");
              }
            });
    assertEquals(-1, encode(codec, RAW_BYTES));
    CodecException failure =
        assertThrows(
            CodecException.class,
            () -> BlockCodecs.byId((byte) 127).decode(MemorySegment.NULL, MemorySegment.NULL));
    assertTrue(String.valueOf(failure.getMessage()).contains("'mine' failed"), failure::toString);
  }

  @Test
  void codecThatAsksForTooMuch_orClaimsMoreThanItsBound_storesBlocksAsTheyAre() {
    for (long bound : List.of(-1L, 3L * RAW_BYTES + (1 << 16), Long.MAX_VALUE)) {
      BlockCodec greedy =
          pluggedIn(
              new Zeros() {
                @Override
                public long boundBytes(int rawBytes) {
                  return bound;
                }
              });
      assertEquals(0, greedy.boundBytes(RAW_BYTES));
      assertEquals(-1, encode(greedy, 1 << 20));
    }
    for (int length : List.of(0, 101, RAW_BYTES, Integer.MAX_VALUE)) {
      BlockCodec liar =
          pluggedIn(
              new Zeros() {
                @Override
                public long boundBytes(int rawBytes) {
                  return 100;
                }

                @Override
                public int encode(MemorySegment raw, MemorySegment target) {
                  assertEquals(100, target.byteSize());
                  assertTrue(raw.isReadOnly());
                  return length;
                }
              });
      assertEquals(-1, encode(liar, RAW_BYTES), () -> "length " + length);
    }
  }

  private static BlockCodec pluggedIn(BlockCodec codec) {
    BlockCodecs.plugIn(Map.of("mine", provider(127, () -> codec)));
    return BlockCodecs.create("mine");
  }

  private static int encode(BlockCodec codec, int targetBytes) {
    try (Arena arena = Arena.ofConfined()) {
      return codec.encode(arena.allocate(RAW_BYTES), arena.allocate(targetBytes));
    }
  }
}

package io.kvtier.systemtests;

import io.kvtier.client.Keys;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Keys and blocks that can be told apart: a block's bytes follow from its number. */
final class Patterns {
  private Patterns() {}

  static Keys keys(int from, int count) {
    List<byte[]> keys = new ArrayList<>();
    for (int i = from; i < from + count; i++) {
      keys.add(ByteBuffer.allocate(32).putInt(i).putInt(28, ~i).array());
    }
    return Keys.of(keys);
  }

  static void fill(MemorySegment block, int number) {
    for (long at = 0; at + 8 <= block.byteSize(); at += 8) {
      block.set(ValueLayout.JAVA_LONG_UNALIGNED, at, word(number, at));
    }
  }

  static boolean matches(MemorySegment block, int number) {
    for (long at = 0; at + 8 <= block.byteSize(); at += 8) {
      if (block.get(ValueLayout.JAVA_LONG_UNALIGNED, at) != word(number, at)) {
        return false;
      }
    }
    return true;
  }

  private static long word(int number, long at) {
    return (number + 1) * 0x9E37_79B9_7F4A_7C15L + at;
  }

  static List<MemorySegment> empty(Arena arena, int count, long blockBytes) {
    MemorySegment all = arena.allocate(count * blockBytes, 64);
    List<MemorySegment> blocks = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      blocks.add(all.asSlice(i * blockBytes, blockBytes));
    }
    return blocks;
  }

  static List<MemorySegment> filled(Arena arena, int from, int count, long blockBytes) {
    List<MemorySegment> blocks = empty(arena, count, blockBytes);
    for (int i = 0; i < count; i++) {
      fill(blocks.get(i), from + i);
    }
    return blocks;
  }
}

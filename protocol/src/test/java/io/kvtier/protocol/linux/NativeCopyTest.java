package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class NativeCopyTest {
  private static final int MOST = 600_000;
  private static final byte UNTOUCHED = 0x5a;

  private final SplittableRandom random = new SplittableRandom(1);
  private final @Nullable NativeCopy found = NativeCopy.get();

  @BeforeEach
  void isBuilt() {
    assumeTrue(found != null, "this build had no C compiler");
  }

  private NativeCopy copies() {
    return Objects.requireNonNull(found);
  }

  private static int crc32c(byte[] content) {
    CRC32C checksum = new CRC32C();
    checksum.update(content);
    return (int) checksum.getValue();
  }

  @Test
  void anyLengthAndAlignment_bytesAndChecksumAsTheDefinition() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment nativeSource = arena.allocate(MOST + 64);
      MemorySegment nativeTarget = arena.allocate(MOST + 200);
      MemorySegment heapTarget = MemorySegment.ofArray(new byte[MOST + 200]);
      for (int round = 0; round < 300; round++) {
        byte[] content = new byte[random.nextInt(round < 100 ? 600 : MOST)];
        random.nextBytes(content);
        MemorySegment source = MemorySegment.ofArray(content);
        if (random.nextBoolean()) {
          source = nativeSource.asSlice(random.nextInt(64), content.length).copyFrom(source);
        }
        MemorySegment whole = random.nextBoolean() ? heapTarget : nativeTarget;
        int at = random.nextInt(100);
        MemorySegment target = whole.asSlice(at);
        int split = random.nextInt(content.length + 1);

        whole.fill(UNTOUCHED);
        int first = copies().copyCrc32c(0, source.asSlice(0, split), target);
        int both = copies().copyCrc32c(first, source.asSlice(split), target.asSlice(split));
        assertEquals(crc32c(content), both);
        assertOnly(content, whole, at);

        whole.fill(UNTOUCHED);
        copies().copy(source, target);
        assertOnly(content, whole, at);
      }
    }
  }

  private static void assertOnly(byte[] content, MemorySegment whole, int at) {
    assertEquals(-1, whole.asSlice(at, content.length).mismatch(MemorySegment.ofArray(content)));
    long end = (long) at + content.length;
    for (long i = 0; i < at; i++) {
      assertEquals(UNTOUCHED, whole.get(JAVA_BYTE, i));
    }
    for (long i = end; i < end + 100; i++) {
      assertEquals(UNTOUCHED, whole.get(JAVA_BYTE, i));
    }
  }

  @Test
  void targetTooShort_isRefused() {
    MemorySegment source = MemorySegment.ofArray(new byte[10]);
    MemorySegment target = MemorySegment.ofArray(new byte[9]);
    assertThrows(IndexOutOfBoundsException.class, () -> copies().copy(source, target));
    assertThrows(IndexOutOfBoundsException.class, () -> copies().copyCrc32c(0, source, target));
  }
}

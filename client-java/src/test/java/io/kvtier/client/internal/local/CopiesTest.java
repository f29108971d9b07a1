package io.kvtier.client.internal.local;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.linux.NativeCopy;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CopiesTest {
  private static final byte[] CONTENT = new byte[1 << 20];

  static {
    new SplittableRandom(5).nextBytes(CONTENT);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 4_096, 16_384, 262_144, 1 << 20})
  void everyWay_copiesAndSumsTheSame(int bytes) {
    MemorySegment source = MemorySegment.ofArray(CONTENT).asSlice(CONTENT.length - bytes);
    CRC32C expected = new CRC32C();
    expected.update(CONTENT, CONTENT.length - bytes, bytes);
    for (Copies copies : new Copies[] {new Copies(null), new Copies(NativeCopy.get())}) {
      MemorySegment target = MemorySegment.ofArray(new byte[bytes + 1]);
      assertEquals((int) expected.getValue(), copies.copyWithChecksum(source, target));
      assertEquals(-1, target.asSlice(0, bytes).mismatch(source));
      target.fill((byte) 0);
      copies.copy(source, target);
      assertEquals(-1, target.asSlice(0, bytes).mismatch(source));
      target.fill((byte) 0);
      AtomicInteger runs = new AtomicInteger();
      long last = bytes / 3;
      int checksum =
          copies.copyWithChecksum(
              source,
              target,
              last,
              () -> {
                runs.incrementAndGet();
                assertEquals(
                    -1, target.asSlice(0, bytes - last).mismatch(source.asSlice(0, bytes - last)));
              });
      assertEquals((int) expected.getValue(), checksum);
      assertEquals(1, runs.get());
      assertEquals(-1, target.asSlice(0, bytes).mismatch(source));
    }
  }

  @Test
  void copyWithChecksum_sourceIsNoByteArray_sumsTheSame() {
    long[] content = new SplittableRandom(6).longs(600).toArray();
    MemorySegment source = MemorySegment.ofArray(content);
    for (Copies copies : new Copies[] {new Copies(null), new Copies(NativeCopy.get())}) {
      byte[] target = new byte[8 * content.length];
      int checksum = copies.copyWithChecksum(source, MemorySegment.ofArray(target));
      assertEquals(-1, MemorySegment.ofArray(target).mismatch(source));
      CRC32C expected = new CRC32C();
      expected.update(target);
      assertEquals((int) expected.getValue(), checksum);
    }
  }
}

package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.BlockEncoding;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class KvBlocksTest {
  @TempDir private Path folder;

  private Path file(String line, int bytes) throws IOException {
    byte[] content = new byte[4096 + bytes];
    new Random(1).nextBytes(content);
    byte[] header = Arrays.copyOf((line + "\n").getBytes(StandardCharsets.US_ASCII), 4096);
    System.arraycopy(header, 0, content, 0, header.length);
    return Files.write(folder.resolve("kv"), content);
  }

  @Test
  void read_wholeBlocks_behindTheHeader() throws IOException {
    Path kv = file("exact bf16 1024 2048", 3 * 2048 + 100);
    try (Arena arena = Arena.ofConfined()) {
      KvBlocks blocks = KvBlocks.read(kv, arena);
      assertEquals(3, blocks.count());
      assertEquals(2, blocks.encoding().granules());
      byte[] second = Arrays.copyOfRange(Files.readAllBytes(kv), 4096 + 2048, 4096 + 4096);
      assertEquals(-1, blocks.block(1).mismatch(MemorySegment.ofArray(second)));
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", "exact bf16 1024", "exact fp16 1024 2048", "exact bf16 1024 x", "2048"})
  void read_anotherFirstLine_isRefused(String line) throws IOException {
    Path kv = file(line, 4096);
    try (Arena arena = Arena.ofConfined()) {
      assertThrows(IllegalArgumentException.class, () -> KvBlocks.read(kv, arena));
    }
  }

  @Test
  void read_fileThatEndsBeforeABlock_isRefused() throws IOException {
    Path kv = file("exact bf16 1024 2048", 2047);
    try (Arena arena = Arena.ofConfined()) {
      var refused = assertThrows(IllegalArgumentException.class, () -> KvBlocks.read(kv, arena));
      assertTrue(String.valueOf(refused.getMessage()).startsWith("no block of 2048 bytes"));
    }
  }

  @Test
  void exponentBits_areTheirEntropy() {
    // Exponents 126 and 127, equally often; the bits of the mantissa don't count.
    short[] elements = {0x3f00, 0x3f80, 0x3f12, (short) 0xbf92};
    MemorySegment raw = MemorySegment.ofArray(new byte[1024]);
    for (int i = 0; i < 512; i++) {
      raw.setAtIndex(ValueLayout.JAVA_SHORT_UNALIGNED, i, elements[i % elements.length]);
    }
    KvBlocks blocks = new KvBlocks(raw, BlockEncoding.of("exact bf16 1024", 1024));
    assertEquals(1, blocks.exponentBits(), 1e-12);
  }
}

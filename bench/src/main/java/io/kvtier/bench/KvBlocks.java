package io.kvtier.bench;

import io.kvtier.layout.encoding.BlockEncoding;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

/**
 * Raw blocks of bf16 elements, one behind the other, to measure codecs with.
 *
 * @param raw their bytes
 * @param encoding how a block is cut into granules
 */
record KvBlocks(MemorySegment raw, BlockEncoding encoding) {
  private static final int CHANNELS = 1024;
  private static final int BLOCK_BYTES = 2 << 20;
  private static final int BLOCKS = 8;

  /** Larger files are read up to here: a pass of all codecs should not take longer. */
  private static final long BYTES_MAX = 64 << 20;

  /** Where the blocks of a file begin; before them stands a line with their encoding and size. */
  private static final int HEADER_BYTES = 4096;

  private static final String EXPECTED =
      "expected a file of bench.kv_values, whose first line is such as 'exact bf16 2048 368640'";

  /** The number of blocks. */
  int count() {
    return (int) (raw.byteSize() / blockBytes());
  }

  int blockBytes() {
    return (int) encoding.rawBytes();
  }

  MemorySegment block(int index) {
    return raw.asSlice((long) index * blockBytes(), blockBytes());
  }

  /**
   * Made-up values {@code [token, channel]}, normally distributed, each channel with a scale of its
   * own. A granule has all channels of two tokens.
   */
  static KvBlocks random(Arena arena) {
    MemorySegment raw = arena.allocate((long) BLOCKS * BLOCK_BYTES, 4096);
    Random random = new Random(1);
    double[] scales = new double[CHANNELS];
    for (int channel = 0; channel < CHANNELS; channel++) {
      scales[channel] = Math.exp(random.nextGaussian());
    }
    for (long i = 0; i < raw.byteSize() / 2; i++) {
      double value = random.nextGaussian() * scales[(int) (i % CHANNELS)];
      raw.setAtIndex(
          ValueLayout.JAVA_SHORT, i, (short) (Float.floatToRawIntBits((float) value) >>> 16));
    }
    return new KvBlocks(raw, BlockEncoding.of("exact bf16 4096", BLOCK_BYTES));
  }

  /**
   * The blocks of a file, as {@code bench.kv_values} makes it of a model.
   *
   * @throws IllegalArgumentException when it is no such file; the message says what was expected
   */
  static KvBlocks read(Path file, Arena arena) throws IOException {
    byte[] header = new byte[HEADER_BYTES];
    try (var in = Files.newInputStream(file)) {
      if (in.readNBytes(header, 0, HEADER_BYTES) < HEADER_BYTES) {
        throw new IllegalArgumentException("less than a header; " + EXPECTED);
      }
    }
    String line = new String(header, StandardCharsets.ISO_8859_1).lines().findFirst().orElse("");
    int end = line.lastIndexOf(' ');
    if (end < 0 || !line.substring(end + 1).matches("[1-9][0-9]{0,8}")) {
      throw new IllegalArgumentException("another first line; " + EXPECTED);
    }
    int blockBytes = Integer.parseInt(line.substring(end + 1));
    BlockEncoding encoding = BlockEncoding.of(line.substring(0, end), blockBytes);
    long blocks = Math.min(Files.size(file) - HEADER_BYTES, BYTES_MAX) / blockBytes;
    if (blocks == 0) {
      throw new IllegalArgumentException("no block of " + blockBytes + " bytes; " + EXPECTED);
    }
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
      MemorySegment mapped =
          channel.map(
              FileChannel.MapMode.READ_ONLY, HEADER_BYTES, blocks * blockBytes, Arena.ofAuto());
      return new KvBlocks(arena.allocate(mapped.byteSize(), 4096).copyFrom(mapped), encoding);
    }
  }

  /** The information in the exponents, in bits of the 8 that an element has for them. */
  double exponentBits() {
    long[] counts = new long[256];
    long elements = raw.byteSize() / Short.BYTES;
    for (long i = 0; i < elements; i++) {
      counts[raw.getAtIndex(ValueLayout.JAVA_SHORT_UNALIGNED, i) >>> 7 & 0xff]++;
    }
    double bits = 0;
    for (long count : counts) {
      double share = count / (double) elements;
      bits -= count == 0 ? 0 : share * Math.log(share) / Math.log(2);
    }
    return bits;
  }
}

package io.kvtier.client.internal.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutRequest;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The generated code reads what the client writes. */
final class BlockMessagesTest {
  private static final int MEGABYTE = 1 << 20;

  private static byte[] pattern(int bytes) {
    byte[] data = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      data[i] = (byte) (i * 31 % 251);
    }
    return data;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 127, 128, 4096, 70_000})
  void chunk_anySize_isWhatTheGeneratedCodeReads(int size) throws Exception {
    byte[] data = pattern(size);
    for (boolean isLast : new boolean[] {false, true}) {
      CRC32C crc = new CRC32C();
      crc.update(1);
      CRC32C expected = new CRC32C();
      expected.update(1);
      expected.update(data);

      byte[] out = new byte[BlockMessages.OVERHEAD_BYTES_MAX + size];
      int length =
          BlockMessages.chunk(out, 2047, 1L << 33, MemorySegment.ofArray(data), crc, isLast);

      assertEquals(0, out[0]);
      assertEquals(length - RemoteCall.PREFIX_BYTES, ByteBuffer.wrap(out).getInt(1));
      PutRequest read =
          PutRequest.parseFrom(
              ByteString.copyFrom(out, RemoteCall.PREFIX_BYTES, length - RemoteCall.PREFIX_BYTES));
      PutChunk chunk = read.getChunk();
      assertTrue(read.hasChunk());
      assertEquals(2047, chunk.getBlock());
      assertEquals(1L << 33, chunk.getOffset());
      assertArrayEquals(data, chunk.getData().toByteArray());
      assertEquals(expected.getValue(), crc.getValue());
      assertEquals(isLast, chunk.hasCrc32C());
      assertEquals(isLast ? (int) expected.getValue() : 0, chunk.getCrc32C());
    }
  }

  @Test
  void chunk_ofAnySize_isInTheGivenArrayOnly() {
    var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    MemorySegment data = MemorySegment.ofArray(pattern(MEGABYTE));
    byte[] out = new byte[BlockMessages.OVERHEAD_BYTES_MAX + MEGABYTE];
    CRC32C crc = new CRC32C();
    int warm = BlockMessages.chunk(out, 0, 0, data, crc, true);
    long before = threads.getCurrentThreadAllocatedBytes();
    int length = BlockMessages.chunk(out, 0, 0, data, crc, true);
    long taken = threads.getCurrentThreadAllocatedBytes() - before;
    assertEquals(warm, length);
    assertTrue(taken < MEGABYTE / 4, taken + " bytes for a message of " + length);
  }

  @Test
  void chunk_largestFields_fitTheArray() {
    byte[] out = new byte[BlockMessages.OVERHEAD_BYTES_MAX + MEGABYTE];
    MemorySegment data = MemorySegment.ofArray(pattern(MEGABYTE));
    int length = BlockMessages.chunk(out, -1, -1, data, new CRC32C(), true);
    assertTrue(length <= out.length);
  }
}

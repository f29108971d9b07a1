package io.kvtier.client.internal.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.StatusCode;
import io.netty.buffer.Unpooled;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.grpc.common.CodecException;
import io.vertx.grpc.common.GrpcMessage;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The generated code reads what the client writes, and writes what the client reads. */
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

      Buffer message =
          BlockMessages.chunk(2047, 1L << 33, MemorySegment.ofArray(data), crc, isLast);

      PutRequest read = PutRequest.parseFrom(message.getBytes());
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
  void chunk_block_isCopiedOnce() {
    var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    MemorySegment data = MemorySegment.ofArray(pattern(MEGABYTE));
    CRC32C crc = new CRC32C();
    Buffer warm = BlockMessages.chunk(0, 0, data, crc, true);
    long before = threads.getCurrentThreadAllocatedBytes();
    Buffer message = BlockMessages.chunk(0, 0, data, crc, true);
    long taken = threads.getCurrentThreadAllocatedBytes() - before;
    assertEquals(warm.length(), message.length());
    assertTrue(taken < MEGABYTE * 5L / 4, taken + " bytes for a message of " + message.length());
  }

  @Test
  void response_data_isAViewOfWhatCame() {
    byte[] data = pattern(4096);
    GetResponse sent =
        GetResponse.newBuilder()
            .setBlock(3)
            .setStatus(StatusCode.STATUS_OK)
            .setOffset(1L << 33)
            .setData(UnsafeByteOperations.unsafeWrap(data))
            .setCrc32C(-7)
            .setLast(true)
            .build();
    byte[] came = sent.toByteArray();

    GetResponse read = decode(came);

    assertEquals(sent, read);
    int at = came.length - data.length - 7; // crc32c and last follow the data
    assertEquals(data[1], came[at + 1]);
    came[at] = 99;
    assertEquals(99, read.getData().byteAt(0));
  }

  @Test
  void response_malformed_isRefused() {
    byte[] whole =
        GetResponse.newBuilder().setData(ByteString.copyFrom(pattern(300))).build().toByteArray();
    byte[] cut = java.util.Arrays.copyOf(whole, whole.length - 1);
    assertThrows(CodecException.class, () -> decode(cut));
    assertThrows(CodecException.class, () -> decode(new byte[] {-1, -1}));
    assertFalse(decode(new byte[0]).hasRefusal());
  }

  private static GetResponse decode(byte[] message) {
    return BlockMessages.GET
        .decoder()
        .decode(
            GrpcMessage.message(
                "identity", BufferInternal.buffer(Unpooled.wrappedBuffer(message))));
  }
}

package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnknownFieldSet;
import io.kvtier.protocol.v1.Keys;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Random;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;

/** The reader of puts against protobuf's own encoder. */
final class PutMessageTest {
  private static final byte[] DATA = new byte[300];

  static {
    new Random(1).nextBytes(DATA);
  }

  private static final PutChunk CHUNK =
      PutChunk.newBuilder()
          .setBlock(200)
          .setOffset(5_000_000_000L)
          .setData(ByteString.copyFrom(DATA))
          .setCrc32C(0x89abcdef)
          .build();

  private static ReceivedMessage received(byte[] message, int pieceBytes) {
    ReceivedMessage received = new ReceivedMessage(message.length);
    for (int at = 0; at < message.length; at += pieceBytes) {
      // What comes with a piece is more than the piece: another message may follow.
      ByteBuffer bytes = ByteBuffer.wrap(message, at, Math.min(pieceBytes, message.length - at));
      received.takeFrom(bytes.slice());
    }
    assertTrue(received.isWhole());
    return received;
  }

  private static void assertChunk(PutMessage put) {
    assertTrue(put.isChunk);
    assertNull(put.header);
    assertEquals(200, put.block);
    assertEquals(5_000_000_000L, put.offset);
    assertEquals(0x89abcdef, put.crc32c);
    assertEquals(DATA.length, put.data.length());
    byte[] out = new byte[DATA.length + 2];
    CRC32C crc = new CRC32C();
    put.message().copy(put.data, MemorySegment.ofArray(out), 1, crc);
    byte[] expected = new byte[DATA.length + 2];
    System.arraycopy(DATA, 0, expected, 1, DATA.length);
    assertArrayEquals(expected, out);
    CRC32C whole = new CRC32C();
    whole.update(DATA);
    assertEquals(whole.getValue(), crc.getValue());
  }

  @Test
  void chunk_inPiecesOfAnySize_isRead() throws Exception {
    byte[] message = PutRequest.newBuilder().setChunk(CHUNK).build().toByteArray();

    for (int pieceBytes = 1; pieceBytes <= message.length; pieceBytes++) {
      assertChunk(PutMessage.read(received(message, pieceBytes)));
    }
  }

  @Test
  void chunk_withFieldsInAnyOrderAndUnknownOnes_isRead() throws Exception {
    UnknownFieldSet unknown =
        UnknownFieldSet.newBuilder()
            .addField(
                90,
                UnknownFieldSet.Field.newBuilder()
                    .addVarint(-1)
                    .addFixed32(7)
                    .addFixed64(8)
                    .addLengthDelimited(ByteString.copyFromUtf8("later"))
                    .build())
            .build();
    ByteArrayOutputStream inner = new ByteArrayOutputStream();
    inner.write(PutChunk.newBuilder().setCrc32C(CHUNK.getCrc32C()).build().toByteArray());
    inner.write(PutChunk.newBuilder().setData(CHUNK.getData()).build().toByteArray());
    inner.write(unknown.toByteArray());
    inner.write(PutChunk.newBuilder().setOffset(CHUNK.getOffset()).build().toByteArray());
    inner.write(PutChunk.newBuilder().setBlock(CHUNK.getBlock()).build().toByteArray());
    byte[] message =
        PutRequest.newBuilder()
            .setUnknownFields(
                unknown.toBuilder()
                    .addField(
                        PutRequest.CHUNK_FIELD_NUMBER,
                        UnknownFieldSet.Field.newBuilder()
                            .addLengthDelimited(ByteString.copyFrom(inner.toByteArray()))
                            .build())
                    .build())
            .build()
            .toByteArray();

    for (int pieceBytes : new int[] {1, 7, message.length}) {
      assertChunk(PutMessage.read(received(message, pieceBytes)));
    }
  }

  @Test
  void header_isRead() throws Exception {
    PutHeader header =
        PutHeader.newBuilder()
            .setKeys(Keys.newBuilder().addKeys(ByteString.copyFrom(DATA, 0, 20)))
            .setOperationId(3)
            .build();
    byte[] message = PutRequest.newBuilder().setHeader(header).build().toByteArray();

    PutMessage put = PutMessage.read(received(message, 5));

    assertEquals(header, put.header);
    assertFalse(put.isChunk);
  }

  @Test
  void nothing_isNeither() throws Exception {
    PutMessage put = PutMessage.read(received(new byte[0], 1));

    assertNull(put.header);
    assertFalse(put.isChunk);
  }

  @Test
  void garbage_isRefusedAsProtobufDoes() {
    byte[] message = PutRequest.newBuilder().setChunk(CHUNK).build().toByteArray();
    Random random = new Random(7);
    for (int i = 0; i < 20_000; i++) {
      byte[] damaged = message.clone();
      int damages = 1 + random.nextInt(3);
      for (int d = 0; d < damages; d++) {
        damaged[random.nextInt(20)] = (byte) random.nextInt();
      }
      PutRequest expected;
      try {
        expected = PutRequest.parseFrom(damaged);
      } catch (InvalidProtocolBufferException e) {
        expected = null;
      }
      int pieceBytes = 1 + random.nextInt(damaged.length);
      if (expected == null) {
        assertThrows(
            InvalidProtocolBufferException.class,
            () -> PutMessage.read(received(damaged, pieceBytes)));
      }
    }
    assertThrows(
        InvalidProtocolBufferException.class,
        () -> PutMessage.read(received(new byte[] {18, 5, 8}, 2)));
  }
}

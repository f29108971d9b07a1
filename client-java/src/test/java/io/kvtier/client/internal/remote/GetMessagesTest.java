package io.kvtier.client.internal.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.StatusCode;
import java.io.ByteArrayOutputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The client reads what the generated code writes, however it is cut into pieces. */
final class GetMessagesTest {
  private static final int MEGABYTE = 1 << 20;

  /** Puts the messages together again. */
  private static final class Together implements GetMessages.Taker {
    private final List<GetResponse> messages = new ArrayList<>();
    private final List<GetResponse> places = new ArrayList<>();
    private final ByteArrayOutputStream data = new ByteArrayOutputStream();
    private int announced;

    @Override
    public void onPlace(GetResponse place, int bytes) {
      places.add(place);
      announced = bytes;
    }

    @Override
    public void onData(ByteBuffer bytes) {
      byte[] copy = new byte[bytes.remaining()];
      bytes.get(copy);
      data.writeBytes(copy);
    }

    @Override
    public void onMessage(GetResponse message) {
      assertEquals(announced, data.size());
      assertTrue(message.getData().isEmpty());
      messages.add(
          data.size() == 0
              ? message
              : message.toBuilder().setData(ByteString.copyFrom(data.toByteArray())).build());
      data.reset();
      announced = 0;
    }
  }

  private static byte[] pattern(int bytes) {
    byte[] data = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      data[i] = (byte) (i * 31 % 251);
    }
    return data;
  }

  private static GetResponse chunk(int bytes) {
    return GetResponse.newBuilder()
        .setBlock(300)
        .setStatus(StatusCode.STATUS_OK)
        .setOffset(1L << 33)
        .setData(ByteString.copyFrom(pattern(bytes)))
        .setCrc32C(-7)
        .setLast(true)
        .build();
  }

  private static byte[] framed(byte[] message) {
    byte[] framed = new byte[RemoteCall.PREFIX_BYTES + message.length];
    RemoteCall.putPrefix(framed, message.length);
    System.arraycopy(message, 0, framed, RemoteCall.PREFIX_BYTES, message.length);
    return framed;
  }

  private static void read(GetMessages messages, byte[] bytes, int pieceBytes) {
    for (int at = 0; at < bytes.length; at += pieceBytes) {
      int count = Math.min(pieceBytes, bytes.length - at);
      messages.onBytes(ByteBuffer.wrap(bytes, at, count).slice());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 7, 100, 1 << 20})
  void messages_piecesOfAnySize_areWhatTheGeneratedCodeWrote(int pieceBytes) {
    List<GetResponse> sent =
        List.of(
            chunk(70_000),
            GetResponse.getDefaultInstance(),
            chunk(1),
            GetResponse.newBuilder()
                .setRefusal(
                    Outcome.newBuilder().setStatus(StatusCode.STATUS_BUSY).setText("x".repeat(900)))
                .build(),
            chunk(4096),
            chunk(0));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    sent.forEach(message -> bytes.writeBytes(framed(message.toByteArray())));
    Together together = new Together();
    GetMessages messages = new GetMessages(together);

    read(messages, bytes.toByteArray(), pieceBytes);
    messages.onEnd();

    assertEquals(sent, together.messages);
    GetResponse place = together.places.getFirst();
    assertEquals(300, place.getBlock());
    assertEquals(1L << 33, place.getOffset());
  }

  @Test
  void messages_fieldsOfALaterVersion_areSkipped() throws Exception {
    ByteArrayOutputStream message = new ByteArrayOutputStream();
    chunk(10).writeTo(message);
    message.writeBytes(new byte[] {(byte) 0xa2, 6, 3, 1, 2, 3}); // field 100, of 3 bytes
    message.writeBytes(
        new byte[] {(byte) 0xa9, 6, 1, 2, 3, 4, 5, 6, 7, 8}); // field 101, of 64 bits
    message.writeBytes(new byte[] {(byte) 0xb0, 6, (byte) 0x80, 1}); // field 102, a varint
    Together together = new Together();
    read(new GetMessages(together), framed(message.toByteArray()), 3);
    GetResponse read = together.messages.getFirst();
    assertArrayEquals(pattern(10), read.getData().toByteArray());
    assertTrue(read.getLast());
  }

  @Test
  void messages_bytesOfABlock_areNotCopied() {
    var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    byte[] bytes = framed(chunk(MEGABYTE).toByteArray());
    GetMessages messages =
        new GetMessages(
            new GetMessages.Taker() {
              @Override
              public void onPlace(GetResponse place, int count) {}

              @Override
              public void onData(ByteBuffer data) {}

              @Override
              public void onMessage(GetResponse message) {}
            });
    read(messages, bytes, 16 << 10);
    long before = threads.getCurrentThreadAllocatedBytes();
    read(messages, bytes, 16 << 10);
    long taken = threads.getCurrentThreadAllocatedBytes() - before;
    assertTrue(taken < MEGABYTE / 4, taken + " bytes for a message of " + bytes.length);
  }

  private static void isRefused(byte[] bytes) {
    GetMessages messages = new GetMessages(new Together());
    RemoteChannel.Failure failure =
        assertThrows(
            RemoteChannel.Failure.class,
            () -> {
              read(messages, bytes, bytes.length);
              messages.onEnd();
            });
    assertEquals(Status.UNAVAILABLE, failure.status());
  }

  @Test
  void messages_malformed_areRefused() {
    byte[] whole = framed(chunk(300).toByteArray());
    isRefused(Arrays.copyOf(whole, whole.length - 1)); // ends too early
    isRefused(Arrays.copyOf(whole, 3)); // ends in the prefix
    byte[] compressed = whole.clone();
    compressed[0] = 1;
    isRefused(compressed);
    byte[] negative = whole.clone();
    negative[1] = -1;
    isRefused(negative);
    byte[] shorter = whole.clone();
    shorter[4]--; // the last field is cut off by its message's end
    isRefused(Arrays.copyOf(shorter, whole.length - 1));
    isRefused(framed(new byte[] {-1, -1})); // half a tag
    isRefused(framed(new byte[] {0, 1})); // field 0
    isRefused(framed(new byte[] {0x33, 1})); // a group
    isRefused(framed(new byte[] {0x32, 5, 1})); // more bytes of a block than the message has
    isRefused(framed(new byte[] {0x3d, 1, 1})); // half a number of 32 bits
    isRefused(framed(new byte[] {0x0a, (byte) 0xff, (byte) 0xff, 0x7f})); // a long refusal
    byte[] endless = new byte[20];
    Arrays.fill(endless, (byte) 0x80);
    isRefused(framed(endless));
  }

  @Test
  void messages_fieldsWithoutEnd_areRefused() {
    byte[] message =
        GetResponse.newBuilder()
            .setRefusal(Outcome.newBuilder().setText("x".repeat(MEGABYTE)))
            .build()
            .toByteArray();
    isRefused(framed(message));
  }
}

package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnknownFieldSet;
import io.kvtier.protocol.v1.PutRequest;
import io.vertx.core.Handler;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.grpc.common.GrpcStatus;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * Throws what may be no gRPC at the decoder: the bytes of a stream in pieces, of which the input's
 * first byte tells the size. The messages must be those that stand there, and each must be read as
 * protobuf reads it.
 */
public final class GrpcFuzz {
  private static final int MESSAGE_BYTES_MAX = 4096;
  private static final int PREFIX_BYTES = 5;

  private GrpcFuzz() {}

  /** What comes out of a stream. */
  private static final class Taken implements GrpcStream.Receiver {
    final List<ReceivedMessage> messages = new ArrayList<>();
    int refusals;
    int ends;

    @Override
    public void onMessage(ReceivedMessage message) {
      require(refusals == 0, "a message after the refusal");
      messages.add(message);
    }

    @Override
    public void onHalfClose() {
      ends++;
    }

    @Override
    public void onUnreadable(GrpcStatus status, String why) {
      refusals++;
    }

    @Override
    public void onBroken() {
      throw new AssertionError("nobody broke it");
    }
  }

  /** One input; what it throws is a finding. */
  public static void fuzzerTestOneInput(byte[] input) {
    if (input.length == 0) {
      return;
    }
    byte[] bytes = Arrays.copyOfRange(input, 1, input.length);
    int pieceBytes = input[0] == 0 ? Math.max(1, bytes.length) : input[0] & 0xff;
    Taken taken = new Taken();
    Map<String, Handler<Object>> handlers = new HashMap<>();
    HttpServerResponse response = fake(HttpServerResponse.class, new HashMap<>(), null);
    new GrpcStream(
            fake(HttpServerRequest.class, handlers, response), MESSAGE_BYTES_MAX, new HeadSpace())
        .start(taken);
    Handler<Object> data = Objects.requireNonNull(handlers.get("handler"));
    for (int at = 0; at < bytes.length; at += pieceBytes) {
      data.handle(
          Buffer.buffer(Arrays.copyOfRange(bytes, at, Math.min(bytes.length, at + pieceBytes))));
    }
    Objects.requireNonNull(handlers.get("endHandler")).handle(null);
    requireMessages(bytes, taken);
    for (ReceivedMessage message : taken.messages) {
      requireReadAsProtobufDoes(message);
    }
  }

  /** A stream with no connection under it: it keeps its handlers. */
  private static <T> T fake(
      Class<T> shape, Map<String, Handler<Object>> handlers, @Nullable HttpServerResponse answer) {
    return shape.cast(
        Proxy.newProxyInstance(
            shape.getClassLoader(),
            new Class<?>[] {shape},
            (proxy, method, arguments) -> {
              if (arguments != null && arguments.length == 1 && arguments[0] instanceof Handler) {
                @SuppressWarnings("unchecked") // which it takes is as the caller says
                Handler<Object> handler = (Handler<Object>) arguments[0];
                handlers.put(method.getName(), handler);
                return proxy;
              }
              return switch (method.getName()) {
                case "response" -> answer;
                case "getHeader" -> null;
                default -> throw new AssertionError(method + " is not expected");
              };
            }));
  }

  private static void requireMessages(byte[] bytes, Taken taken) {
    List<byte[]> expected = new ArrayList<>();
    int at = 0;
    boolean isRefused = false;
    while (!isRefused && at < bytes.length) {
      if (bytes.length - at < PREFIX_BYTES) {
        isRefused = true;
        break;
      }
      int length = ByteBuffer.wrap(bytes).getInt(at + 1);
      int begin = at + PREFIX_BYTES;
      isRefused =
          bytes[at] != 0
              || length < 0
              || length > MESSAGE_BYTES_MAX
              || length > bytes.length - begin;
      if (!isRefused) {
        expected.add(Arrays.copyOfRange(bytes, begin, begin + length));
        at = begin + length;
      }
    }
    require(taken.ends == 1, taken.ends + " ends");
    require(
        taken.refusals == (isRefused ? 1 : 0),
        taken.refusals + " refusals, " + taken.messages.size() + " messages");
    require(
        taken.messages.size() == expected.size(),
        taken.messages.size() + " messages, expected " + expected.size());
    for (int i = 0; i < expected.size(); i++) {
      ByteBuffer whole = taken.messages.get(i).whole();
      require(whole.equals(ByteBuffer.wrap(expected.get(i))), "message " + i + " is another");
    }
  }

  private static void requireReadAsProtobufDoes(ReceivedMessage message) {
    PutMessage put;
    try {
      put = PutMessage.read(message);
    } catch (InvalidProtocolBufferException e) {
      requireRefused(message);
      return;
    }
    try {
      requireSame(put, PutRequest.parseFrom(message.whole()), parts(message));
    } catch (InvalidProtocolBufferException e) {
      throw new AssertionError("protobuf refuses it", e);
    }
  }

  private static void requireRefused(ReceivedMessage message) {
    try {
      PutRequest taken = PutRequest.parseFrom(message.whole());
      require(hasGroup(taken), "refused: " + taken);
    } catch (InvalidProtocolBufferException expected) {
      // So does protobuf.
    }
  }

  /** How many headers and chunks a message has. */
  private static int parts(ReceivedMessage message) throws InvalidProtocolBufferException {
    UnknownFieldSet fields = UnknownFieldSet.parseFrom(toBytes(message.whole()));
    return fields.getField(PutRequest.HEADER_FIELD_NUMBER).getLengthDelimitedList().size()
        + fields.getField(PutRequest.CHUNK_FIELD_NUMBER).getLengthDelimitedList().size();
  }

  private static void requireSame(PutMessage put, PutRequest expected, int parts) {
    if (parts != 1) {
      return; // of several, protobuf merges some: no encoder writes them
    }
    require(put.isChunk == expected.hasChunk(), "it is a chunk, or not");
    if (expected.hasChunk()) {
      requireChunk(put, expected);
    } else {
      require(Objects.equals(put.header, expected.getHeader()), "another header");
    }
  }

  private static void requireChunk(PutMessage put, PutRequest expected) {
    var chunk = expected.getChunk();
    require(put.block == chunk.getBlock(), "block " + put.block);
    require(put.offset == chunk.getOffset(), "offset " + put.offset);
    require(
        chunk.hasCrc32C() ? Objects.equals(put.crc32c, chunk.getCrc32C()) : put.crc32c == null,
        "checksum " + put.crc32c);
    byte[] data = new byte[put.data.length()];
    put.message().copy(put.data, MemorySegment.ofArray(data), 0, new CRC32C());
    require(Arrays.equals(data, chunk.getData().toByteArray()), "other bytes");
  }

  private static byte[] toBytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.get(bytes);
    return bytes;
  }

  /** Whether there is a group, which the reader of puts takes for garbage. */
  private static boolean hasGroup(PutRequest request) {
    return hasGroup(request.getUnknownFields()) || hasGroup(request.getChunk().getUnknownFields());
  }

  private static boolean hasGroup(UnknownFieldSet fields) {
    return fields.asMap().values().stream().anyMatch(field -> !field.getGroupList().isEmpty());
  }

  private static void require(boolean condition, String otherwise) {
    if (!condition) {
      throw new AssertionError(otherwise);
    }
  }
}

package io.kvtier.daemon.grpc;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.TraceContext;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The server's end of a gRPC call on its HTTP/2 stream: messages in, messages out, a status at the
 * end. It knows what gRPC over HTTP/2 says and nothing of kvtier. Received bytes are handed on in
 * the pieces in which they came, and sent bytes are taken from where they are: Vert.x's own gRPC
 * server would copy both twice more.
 *
 * <p>Confined to the event loop of its connection.
 */
final class GrpcStream {
  private static final int PREFIX_BYTES = 5;

  /** For a caller who has a right to call: what it sends on is no more than it may. */
  static final long ANY_BYTES = Long.MAX_VALUE;

  private static final String CONTENT_TYPE = "application/grpc";
  private static final int TIMEOUT_DIGITS_MAX = 8;

  /** A grpc-timeout may be thousands of years: more than a deadline in ns can hold. */
  private static final long TIMEOUT_NS_MAX = TimeUnit.DAYS.toNanos(1000);

  private static final int HTTP_UNSUPPORTED_MEDIA_TYPE = 415;

  /** With any other code, 200 of them in 30 s would have Netty end the connection. */
  private static final long CANCEL = 8;

  /** Nothing of the call was looked at: clients send it again by themselves. */
  private static final long REFUSED_STREAM = 7;

  /** Takes what comes. */
  interface Receiver {
    /** A whole message. */
    void onMessage(ReceivedMessage message);

    /** The client sends no more messages. */
    void onHalfClose();

    /** What came is no message that can be taken; nothing more is taken. */
    void onUnreadable(GrpcStatus status, String why);

    /** The stream is gone, and nothing can be answered. */
    void onBroken();
  }

  private final HttpServerRequest request;
  private final HttpServerResponse response;
  private int messageBytesMax;
  private final ByteBuffer prefix = ByteBuffer.allocate(PREFIX_BYTES);
  private @Nullable Receiver receiver;
  private @Nullable ReceivedMessage partial;
  private final HeadSpace headSpace;
  private final List<ByteBuf> unsent = new ArrayList<>();
  private List<ByteBuffer> heads = new ArrayList<>();
  private boolean unreadable;
  private boolean headSent;
  private long discarded;
  private boolean over;
  private Runnable onOver = () -> {};

  GrpcStream(HttpServerRequest request, int messageBytesMax, HeadSpace headSpace) {
    this.request = request;
    this.headSpace = headSpace;
    this.response = request.response();
    this.messageBytesMax = messageBytesMax;
  }

  /** Whether a request is a call at all; answers it otherwise. */
  static boolean isCall(HttpServerRequest request) {
    String type = request.getHeader("content-type");
    if (request.version() == HttpVersion.HTTP_2
        && HttpMethod.POST.equals(request.method())
        && type != null
        && isGrpc(type)) {
      return true;
    }
    Future<Void> answered = request.response().setStatusCode(HTTP_UNSUPPORTED_MEDIA_TYPE).end();
    if (request.version() == HttpVersion.HTTP_2) {
      // Who sends on is not listened to, and a stream that nobody ends would stay.
      var _ = answered.onComplete(v -> request.response().reset(CANCEL));
    } else {
      var _ = answered.onComplete(v -> request.connection().close());
    }
    return false;
  }

  private static boolean isGrpc(String type) {
    return type.startsWith(CONTENT_TYPE)
        && (type.length() == CONTENT_TYPE.length()
            || type.charAt(CONTENT_TYPE.length()) == '+'
            || type.charAt(CONTENT_TYPE.length()) == ';');
  }

  /** Takes no message that is longer. */
  void limitMessages(int bytesMax) {
    messageBytesMax = bytesMax;
  }

  /** Begins to receive. */
  void start(Receiver to) {
    receiver = to;
    response.exceptionHandler(e -> to.onBroken());
    response.closeHandler(v -> to.onBroken());
    request.exceptionHandler(e -> to.onBroken());
    request.endHandler(v -> {
      if (!unreadable && (partial != null || prefix.position() > 0)) {
        unreadable(GrpcStatus.INTERNAL, "the last message was cut short");
      }
      to.onHalfClose();
    });
    String encoding = request.getHeader("grpc-encoding");
    if (encoding != null && !encoding.equals("identity")) {
      unreadable(GrpcStatus.UNIMPLEMENTED, "messages must not be compressed");
    }
    request.handler(this::onBytes);
  }

  HttpConnection connection() {
    return request.connection();
  }

  /** How long the call may take, ns; 0 when the client does not say. */
  long timeoutNs() {
    String text = request.getHeader("grpc-timeout");
    int digits = text == null ? 0 : text.length() - 1;
    if (text == null || digits < 1 || digits > TIMEOUT_DIGITS_MAX) {
      return 0;
    }
    @Nullable TimeUnit unit =
        switch (text.charAt(digits)) {
          case 'H' -> TimeUnit.HOURS;
          case 'M' -> TimeUnit.MINUTES;
          case 'S' -> TimeUnit.SECONDS;
          case 'm' -> TimeUnit.MILLISECONDS;
          case 'u' -> TimeUnit.MICROSECONDS;
          case 'n' -> TimeUnit.NANOSECONDS;
          default -> null;
        };
    long value = 0;
    for (int i = 0; i < digits; i++) {
      int digit = text.charAt(i) - '0';
      if (digit < 0 || digit > 9) {
        return 0;
      }
      value = 10 * value + digit;
    }
    return unit == null ? 0 : Math.clamp(unit.toNanos(value), 1, TIMEOUT_NS_MAX);
  }

  /** The caller's trace context; null where there is none, or none that can be read. */
  @Nullable TraceContext traceContext() {
    List<String> parents = request.headers().getAll("traceparent");
    return parents.size() == 1 ? TraceContext.parse(parents.getFirst()) : null;
  }

  // ---- receiving
  // ------------------------------------------------------------------------------------------------

  private void onBytes(Buffer buffer) {
    ByteBuffer bytes = ((BufferInternal) buffer).getByteBuf().nioBuffer();
    while (bytes.hasRemaining() && !unreadable) {
      ReceivedMessage message = partial;
      if (message == null) {
        while (prefix.hasRemaining() && bytes.hasRemaining()) {
          prefix.put(bytes.get());
        }
        if (prefix.hasRemaining()) {
          return;
        }
        message = begin();
        if (message == null) {
          return;
        }
      }
      message.takeFrom(bytes);
      partial = message.isWhole() ? null : message;
      Receiver to = receiver;
      if (message.isWhole() && to != null) {
        to.onMessage(message);
      }
    }
  }

  private @Nullable ReceivedMessage begin() {
    boolean isCompressed = prefix.get(0) != 0;
    int length = prefix.getInt(1);
    prefix.clear();
    if (isCompressed) {
      unreadable(GrpcStatus.UNIMPLEMENTED, "messages must not be compressed");
    } else if (length < 0 || length > messageBytesMax) {
      unreadable(
          GrpcStatus.RESOURCE_EXHAUSTED,
          "a message of "
              + Integer.toUnsignedString(length)
              + " bytes, expected at most "
              + messageBytesMax);
    } else {
      return new ReceivedMessage(length);
    }
    return null;
  }

  private void unreadable(GrpcStatus status, String why) {
    unreadable = true;
    partial = null;
    Receiver to = receiver;
    if (to != null) {
      to.onUnreadable(status, why);
    }
  }

  /** Takes no more bytes off the wire, but for those that are here already. */
  void pause() {
    if (!request.isEnded()) {
      request.pause();
    }
  }

  void resume() {
    if (!request.isEnded()) {
      request.resume();
    }
  }

  // ---- sending
  // --------------------------------------------------------------------------------------------------

  /** The bytes of a message's prefix, to be written before the message. */
  static int prefixBytes() {
    return PREFIX_BYTES;
  }

  /** Writes the prefix of a message of that length. */
  static void putPrefix(byte[] out, int length) {
    ByteBuffer.wrap(out).put((byte) 0).putInt(length);
  }

  /** A whole message with its prefix. */
  static byte[] framed(MessageLite message) {
    int length = message.getSerializedSize();
    byte[] framed = new byte[PREFIX_BYTES + length];
    putPrefix(framed, length);
    CodedOutputStream out = CodedOutputStream.newInstance(framed, PREFIX_BYTES, length);
    try {
      message.writeTo(out);
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    return framed;
  }

  /** Adds a message with its prefix to what is sent next. */
  void append(byte[] framed) {
    unsent.add(Unpooled.wrappedBuffer(outsideOfHeap(framed)));
  }

  /**
   * Adds a message whose last bytes are taken from where they are.
   *
   * @param head the prefix, and what comes before the bytes
   */
  void append(byte[] head, ByteBuffer bytes) {
    append(head);
    unsent.add(Unpooled.wrappedBuffer(bytes));
  }

  private ByteBuffer outsideOfHeap(byte[] bytes) {
    if (bytes.length > HeadSpace.CHUNK_BYTES) {
      return ByteBuffer.wrap(bytes);
    }
    if (heads.isEmpty() || heads.getLast().remaining() < bytes.length) {
      heads.add(headSpace.take());
    }
    ByteBuffer chunk = heads.getLast();
    ByteBuffer copy = chunk.slice(chunk.position(), bytes.length);
    chunk.put(bytes);
    return copy;
  }

  /**
   * Sends what was added. The bytes that it did not copy must stay where they are until the future
   * completes: they are on their way then, or never will be.
   */
  Future<Void> flush() {
    if (unsent.isEmpty()) {
      return Future.succeededFuture();
    }
    sendHead();
    ByteBuf all = Unpooled.wrappedBuffer(unsent.size(), unsent.toArray(ByteBuf[]::new));
    List<ByteBuffer> used = heads;
    unsent.clear();
    heads = new ArrayList<>();
    return response.write(BufferInternal.buffer(all)).onComplete(written -> headSpace.give(used));
  }

  private void sendHead() {
    if (!headSent) {
      headSent = true;
      response.putHeader("content-type", CONTENT_TYPE);
    }
  }

  /** Ends a call that was carried out, after what was added. */
  void end() {
    var _ = flush();
    sendHead();
    response.putTrailer("grpc-status", "0");
    var _ = response.end();
  }

  /** Ends a call that was carried out, after a last message with its prefix. */
  void end(byte[] framed) {
    sendHead();
    response.putTrailer("grpc-status", "0");
    var _ = response.end(BufferInternal.buffer(framed));
  }

  /** Ends a call that was not carried out. */
  void end(GrpcStatus status, String why) {
    unsent.clear();
    String code = String.valueOf(status.code);
    String text = URLEncoder.encode(Printable.of(why), StandardCharsets.UTF_8).replace("+", "%20");
    if (headSent) {
      response.putTrailer("grpc-status", code);
      response.putTrailer("grpc-message", text);
    } else {
      sendHead();
      response.putHeader("grpc-status", code);
      response.putHeader("grpc-message", text);
    }
    var _ = response.end();
  }

  /** Whether the client has half-closed, and all that it sent has come. */
  boolean isEnded() {
    return request.isEnded();
  }

  /**
   * Refuses a call of which nothing is to be read. The answer waits for the client's end, as an
   * earlier one would have its stream reset, and so many resets look like an attack. Who calls this
   * bounds how long it may wait, and how many.
   *
   * @param bytesMax for how many bytes more it waits
   * @param then done as soon as it has been answered, or is gone
   */
  void refuse(GrpcStatus status, String why, long bytesMax, Runnable then) {
    onOver = then;
    request.exceptionHandler(e -> over());
    request.endHandler(v -> {
      over();
      end(status, why);
    });
    request.handler(bytes -> {
      discarded += bytes.length();
      if (discarded > bytesMax) {
        resetUnlessOver();
      }
    });
  }

  private void over() {
    over = true;
    onOver.run();
  }

  /** Drops what comes from now on, but for its end: the answer is known, and waits for that. */
  void dropRest() {
    unreadable = true;
    partial = null;
    resume();
  }

  /** Breaks a call off that was refused, and waits still. */
  void resetUnlessOver() {
    if (!over) {
      over();
      reset();
    }
  }

  /** Refuses a call of which nothing was looked at, in the way that has clients send it again. */
  void refuseUnread() {
    var _ = response.reset(REFUSED_STREAM);
  }

  /** Breaks the stream off. */
  void reset() {
    unsent.clear();
    var _ = response.reset(CANCEL);
  }
}

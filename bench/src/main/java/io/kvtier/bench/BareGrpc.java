package io.kvtier.bench;

import io.netty.buffer.Unpooled;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.grpc.common.GrpcMessageDecoder;
import io.vertx.grpc.common.GrpcMessageEncoder;
import io.vertx.grpc.common.ServiceMethod;
import io.vertx.grpc.common.ServiceName;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * A server that speaks just enough gRPC to move bytes, in a process of its own: Put drops all
 * bytes, Get sends messages of zeros. It has the HTTP/2, the TLS and the windows of the daemon, and
 * neither keys nor checksums nor memory for blocks. A server with a library of gRPC would be
 * slower, because a library puts each message together before it hands it over.
 */
final class BareGrpc implements AutoCloseable {
  static final String CIPHER_SUITE = "TLS_AES_128_GCM_SHA256";
  static final int MESSAGE_BYTES_MAX = 8 << 20;
  private static final ServiceName SERVICE = ServiceName.create("bench", "Bare");

  /** As {@code GrpcFront} has them. */
  private static final int STREAM_WINDOW_BYTES = 1 << 20;

  private static final int CONNECTION_WINDOW_BYTES = 8 << 20;
  private static final int TIMEOUT_S = 30;
  private static final int PREFIX_BYTES = 5;

  /** Get asks for messages: how many, and of how many bytes. */
  static final ServiceMethod<Buffer, Buffer> GET =
      ServiceMethod.client(
          SERVICE, "Get", GrpcMessageEncoder.IDENTITY, GrpcMessageDecoder.IDENTITY);

  static final ServiceMethod<Buffer, Buffer> PUT =
      ServiceMethod.client(
          SERVICE, "Put", GrpcMessageEncoder.IDENTITY, GrpcMessageDecoder.IDENTITY);

  private final Worker peer;
  private final int port;

  /** Starts the other process. */
  BareGrpc(ServerCertificate certificate) throws IOException {
    peer =
        new Worker(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "--sun-misc-unsafe-memory-access=allow",
                "-XX:+UseSerialGC",
                "-XX:+UseCompactObjectHeaders",
                "-XX:-UsePerfData",
                "-Xmx1g",
                "-cp",
                System.getProperty("java.class.path"),
                Bench.class.getName(),
                "grpc-peer",
                certificate.certificate().toString(),
                certificate.key().toString()));
    port = (int) peer.answer("port");
  }

  int port() {
    return port;
  }

  /** The other process: serves until its input ends. */
  static void serve(Path certificate, Path key) throws Exception {
    HttpServerOptions options =
        new HttpServerOptions()
            .setHost("127.0.0.1")
            .setPort(0)
            .setSsl(true)
            .setUseAlpn(true)
            .setKeyCertOptions(
                new PemKeyCertOptions()
                    .addCertPath(certificate.toString())
                    .addKeyPath(key.toString()))
            .setInitialSettings(new Http2Settings().setInitialWindowSize(STREAM_WINDOW_BYTES))
            .setHttp2ConnectionWindowSize(CONNECTION_WINDOW_BYTES);
    options.setEnabledSecureTransportProtocols(Set.of("TLSv1.3"));
    options.addEnabledCipherSuite(CIPHER_SUITE);
    int port =
        Vertx.vertx()
            .createHttpServer(options)
            .requestHandler(BareGrpc::answer)
            .listen()
            .toCompletionStage()
            .toCompletableFuture()
            .get(TIMEOUT_S, TimeUnit.SECONDS)
            .actualPort();
    System.out.println("ok port=" + port);
    System.in.transferTo(OutputStream.nullOutputStream());
    System.exit(0);
  }

  private static void answer(HttpServerRequest request) {
    HttpServerResponse response = request.response();
    response.putHeader("content-type", "application/grpc").putTrailer("grpc-status", "0");
    if (request.path().endsWith("/Put")) {
      request.handler(bytes -> {});
      request.endHandler(end -> {
        var _ = response.end(Buffer.buffer(new byte[PREFIX_BYTES]));
      });
    } else {
      var _ =
          request
              .body()
              .onSuccess(question ->
                  send(
                      response,
                      new byte[question.getInt(PREFIX_BYTES + 4)],
                      question.getInt(PREFIX_BYTES)));
    }
  }

  /** Sends messages, and waits while the stream is full. */
  private static void send(HttpServerResponse response, byte[] message, int count) {
    byte[] prefix = ByteBuffer.allocate(PREFIX_BYTES).put(1, intBytes(message.length)).array();
    for (int left = count; left > 0; left--) {
      if (response.writeQueueFull()) {
        int rest = left;
        response.drainHandler(v -> {
          response.drainHandler(null);
          send(response, message, rest);
        });
        return;
      }
      var _ = response.write(BufferInternal.buffer(Unpooled.wrappedBuffer(prefix, message)));
    }
    var _ = response.end();
  }

  private static byte[] intBytes(int value) {
    return ByteBuffer.allocate(Integer.BYTES).putInt(value).array();
  }

  @Override
  public void close() {
    peer.close();
  }
}

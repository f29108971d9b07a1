package io.kvtier.bench;

import io.netty.buffer.Unpooled;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.core.net.SocketAddress;
import io.vertx.grpc.client.GrpcClient;
import io.vertx.grpc.client.GrpcClientOptions;
import io.vertx.grpc.client.GrpcClientRequest;
import io.vertx.grpc.client.GrpcClientResponse;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** The Java side of {@link BareGrpc}: one call after the other, with Vert.x's gRPC client. */
final class BareGrpcCopies implements AutoCloseable {
  private static final int WINDOW_BYTES = 16 << 20;
  private static final int TIMEOUT_S = 30;

  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final GrpcClient grpc;
  private final SocketAddress server;
  private final int blockBytes;
  private final int batch;
  private final byte[] source;
  private final ByteBuffer destination;

  BareGrpcCopies(BareGrpc peer, ServerCertificate certificate, int blockBytes, int batch) {
    this.blockBytes = blockBytes;
    this.batch = batch;
    source = new byte[blockBytes * batch];
    destination = ByteBuffer.allocateDirect(blockBytes * batch);
    server = SocketAddress.inetSocketAddress(peer.port(), "127.0.0.1");
    HttpClientOptions options =
        new HttpClientOptions()
            .setProtocolVersion(HttpVersion.HTTP_2)
            .setSsl(true)
            .setUseAlpn(true)
            .setVerifyHost(true)
            .setTrustOptions(
                new PemTrustOptions().addCertPath(certificate.certificate().toString()))
            .setInitialSettings(new Http2Settings().setInitialWindowSize(WINDOW_BYTES))
            .setHttp2ConnectionWindowSize(WINDOW_BYTES);
    grpc =
        GrpcClient.client(
            vertx, new GrpcClientOptions().setMaxMessageSize(BareGrpc.MESSAGE_BYTES_MAX), options);
  }

  /** Copies batches out for a while; bytes per nanosecond. */
  double getGbps(long durationNs) throws Exception {
    Buffer question = Buffer.buffer().appendInt(batch).appendInt(blockBytes);
    return gbps(
        durationNs,
        () ->
            grpc.request(server, BareGrpc.GET)
                .compose(request -> request.send(question))
                .compose(this::collect));
  }

  private Future<Integer> collect(GrpcClientResponse<Buffer, Buffer> response) {
    Promise<Integer> done = Promise.promise();
    int[] filled = {0};
    var _ = response.exceptionHandler(done::tryFail);
    var _ =
        response.handler(message -> {
          var _ =
              ((BufferInternal) message)
                  .getByteBuf()
                  .getBytes(
                      0,
                      destination.clear().position(filled[0]).limit(filled[0] + message.length()));
          filled[0] += message.length();
        });
    var _ = response.endHandler(end -> done.tryComplete(filled[0]));
    return done.future();
  }

  /** Copies batches in for a while; bytes per nanosecond. */
  double putGbps(long durationNs) throws Exception {
    return gbps(
        durationNs,
        () ->
            grpc.request(server, BareGrpc.PUT)
                .compose(request -> {
                  write(request, 0);
                  return request.response().compose(GrpcClientResponse::last);
                })
                .map(end -> source.length));
  }

  /** Writes the blocks from one place on, and waits while the stream is full. */
  private void write(GrpcClientRequest<Buffer, Buffer> request, int from) {
    for (int at = from; at < source.length; at += blockBytes) {
      if (request.writeQueueFull()) {
        int rest = at;
        var _ =
            request.drainHandler(v -> {
              var _ = request.drainHandler(null);
              write(request, rest);
            });
        return;
      }
      var _ = request.write(BufferInternal.buffer(Unpooled.wrappedBuffer(source, at, blockBytes)));
    }
    var _ = request.end();
  }

  private double gbps(long durationNs, Supplier<Future<Integer>> call) throws Exception {
    long calls = 0;
    long started = System.nanoTime();
    long took = 0;
    while (took < durationNs) {
      Promise<Integer> done = Promise.promise();
      loop.runOnContext(v -> call.get().onComplete(done));
      int bytes =
          done.future().toCompletionStage().toCompletableFuture().get(TIMEOUT_S, TimeUnit.SECONDS);
      if (bytes != source.length) {
        throw new IllegalStateException(bytes + " bytes came, expected " + source.length);
      }
      calls++;
      took = System.nanoTime() - started;
    }
    return calls * (double) source.length / took;
  }

  @Override
  public void close() {
    var _ =
        vertx
            .close()
            .toCompletionStage()
            .toCompletableFuture()
            .orTimeout(TIMEOUT_S, TimeUnit.SECONDS)
            .join();
  }
}

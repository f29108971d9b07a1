package io.kvtier.client.internal.remote;

import com.google.protobuf.MessageLite;
import io.kvtier.client.Options;
import io.kvtier.client.internal.shared.Log;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Timer;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.file.FileSystemOptions;
import io.vertx.core.http.Http2Settings;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.StreamResetException;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.core.net.SocketAddress;
import io.vertx.grpc.common.GrpcMessage;
import io.vertx.grpc.common.GrpcStatus;
import io.vertx.grpc.common.ServiceMethod;
import java.util.ArrayDeque;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a remote client and its calls, all on one event loop. A call fails with a
 * {@link Failure}, and with nothing else.
 */
public final class RemoteChannel implements AutoCloseable {
  /** A call that was not carried out. */
  public static final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Status status;

    Failure(Status status, String why) {
      super(why, null, false, false);
      this.status = status;
    }

    public Status status() {
      return status;
    }

    public String why() {
      return String.valueOf(getMessage());
    }
  }

  private static final int WINDOW_BYTES = 16 << 20;

  /** Transfers at once: as many as a daemon accepts of its smallest tenant. */
  private static final int TRANSFERS_MAX = 8;

  private static final int TRIES_MAX = 3;
  private static final long PAUSE_MS = 50;
  private static final long STOP_TIMEOUT_S = 5;

  /** Calls with the same effect when they are made twice. */
  private static final Set<ServiceMethod<?, ?>> REPEATABLE =
      Set.of(
          KvtierGrpcClient.Ping,
          KvtierGrpcClient.Register,
          KvtierGrpcClient.Lookup,
          KvtierGrpcClient.FindNodes,
          KvtierGrpcClient.Prefetch,
          KvtierGrpcClient.Stats);

  private final RemoteSettings settings;
  private final Vertx vertx;
  private final Context loop;
  private final HttpClient http;
  private final SocketAddress server;
  private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
  private int transfers;
  private volatile boolean isClosed;
  private volatile String trouble = "not connected yet";

  /** A channel that connects with its first call. */
  public RemoteChannel(RemoteSettings settings) {
    this.settings = settings;
    vertx =
        Vertx.builder()
            .with(
                new VertxOptions()
                    .setEventLoopPoolSize(1)
                    .setWorkerPoolSize(1)
                    .setInternalBlockingPoolSize(1)
                    .setFileSystemOptions(
                        new FileSystemOptions()
                            .setFileCachingEnabled(false)
                            .setClassPathResolvingEnabled(false)))
            .withTransport(new PooledTransport())
            .build();
    loop = vertx.getOrCreateContext();
    http = vertx.createHttpClient(options(settings));
    server = SocketAddress.inetSocketAddress(settings.address().port(), settings.address().host());
  }

  private static HttpClientOptions options(RemoteSettings settings) {
    RemoteSettings.Credentials credentials = settings.credentials();
    HttpClientOptions options =
        new HttpClientOptions()
            .setProtocolVersion(HttpVersion.HTTP_2)
            .setHttp2ClearTextUpgrade(false)
            .setConnectTimeout((int) Math.min(Integer.MAX_VALUE, settings.timeout().toMillis()))
            .setTcpKeepAlive(true)
            .setInitialSettings(new Http2Settings().setInitialWindowSize(WINDOW_BYTES))
            .setHttp2ConnectionWindowSize(WINDOW_BYTES);
    if (settings.address().hasTls()) {
      options.setSsl(true).setUseAlpn(true).setVerifyHost(true);
      if (credentials.authority() != null) {
        options.setTrustOptions(
            new PemTrustOptions().addCertPath(credentials.authority().toString()));
      }
      if (credentials.certificate() != null && credentials.key() != null) {
        options.setKeyCertOptions(
            new PemKeyCertOptions()
                .addCertPath(credentials.certificate().toString())
                .addKeyPath(credentials.key().toString()));
      }
    }
    return options;
  }

  /** Why the last call was not carried out; empty if it was. */
  public String trouble() {
    return trouble;
  }

  /** The deadline of an operation that begins now, by {@code System.nanoTime}. */
  public long deadlineNs(Options options) {
    long timeoutNs = options.timeoutNs() == 0 ? settings.timeout().toNanos() : options.timeoutNs();
    return System.nanoTime() + timeoutNs;
  }

  /** A future whose failures are outcomes. */
  public static <T> CompletableFuture<T> done(Future<T> future, Function<Failure, T> failed) {
    return future
        .recover(error -> {
          if (error instanceof Failure failure) {
            return Future.succeededFuture(failed.apply(failure));
          }
          return Future.failedFuture(error);
        })
        .toCompletionStage()
        .toCompletableFuture();
  }

  /** Begins an operation on the event loop. */
  public <T> Future<T> begin(Supplier<Future<T>> operation) {
    Promise<T> promise = Promise.promise();
    try {
      loop.runOnContext(v -> {
        if (isClosed) {
          promise.fail(closed());
        } else {
          operation.get().onComplete(promise);
        }
      });
    } catch (RejectedExecutionException e) {
      promise.fail(closed()); // the event loop has ended
    }
    return promise.future();
  }

  private static Failure closed() {
    return new Failure(Status.UNAVAILABLE, "this client was closed");
  }

  /** A message each way. */
  public <Q extends MessageLite, R> Future<R> call(
      ServiceMethod<R, Q> method, Q message, long deadlineNs) {
    Supplier<Future<R>> attempt =
        () ->
            open(
                method,
                deadlineNs,
                call -> {
                  var _ = call.write(RemoteCall.framed(message));
                  call.end();
                  return only(call, method);
                });
    return REPEATABLE.contains(method) ? repeat(attempt, () -> true, deadlineNs) : attempt.get();
  }

  /** The one message of an answer. */
  static <R> Future<R> only(RemoteCall call, ServiceMethod<R, ?> method) {
    RemoteCall.OneMessage answer = new RemoteCall.OneMessage();
    return call.receive(answer)
        .map(end -> method.decoder().decode(GrpcMessage.message("identity", answer.message())));
  }

  /**
   * Makes a call that changes nothing, and makes it again when the connection breaks or the daemon
   * has no place for it.
   *
   * @param isUnanswered whether no part of an answer has come
   */
  <T> Future<T> repeat(Supplier<Future<T>> attempt, BooleanSupplier isUnanswered, long deadlineNs) {
    return repeat(attempt, isUnanswered, deadlineNs, 1);
  }

  private <T> Future<T> repeat(
      Supplier<Future<T>> attempt, BooleanSupplier isUnanswered, long deadlineNs, int tries) {
    return attempt
        .get()
        .recover(error -> {
          long leftNs = deadlineNs - System.nanoTime();
          boolean mayPass =
              error instanceof Failure failure
                  && (failure.status() == Status.UNAVAILABLE || failure.status() == Status.BUSY)
                  && isUnanswered.getAsBoolean();
          if (!mayPass
              || isClosed
              || tries >= TRIES_MAX
              || leftNs <= PAUSE_MS * tries * 1_000_000) {
            return Future.failedFuture(error);
          }
          return vertx
              .timer(PAUSE_MS * tries, TimeUnit.MILLISECONDS)
              .compose(v -> repeat(attempt, isUnanswered, deadlineNs, tries + 1));
        });
  }

  /** A get or a put: at most {@link #TRANSFERS_MAX} at once. */
  <T> Future<T> transfer(
      ServiceMethod<?, ?> method, long deadlineNs, Function<RemoteCall, Future<T>> carry) {
    Promise<T> promise = Promise.promise();
    Runnable start =
        () -> {
          transfers++;
          open(method, deadlineNs, carry)
              .onComplete(done -> {
                transfers--;
                Runnable next = waiting.poll();
                if (next != null) {
                  next.run();
                }
                promise.handle(done);
              });
        };
    if (transfers < TRANSFERS_MAX) {
      start.run();
    } else {
      waiting.add(start);
    }
    return promise.future();
  }

  private <T> Future<T> open(
      ServiceMethod<?, ?> method, long deadlineNs, Function<RemoteCall, Future<T>> carry) {
    long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
    if (leftMs <= 0) {
      return Future.failedFuture(
          new Failure(Status.DEADLINE, "the time was over before the call began"));
    }
    String bearer;
    try {
      bearer = settings.credentials().currentToken();
    } catch (IllegalArgumentException e) {
      return Future.failedFuture(new Failure(Status.DENIED, String.valueOf(e.getMessage())));
    }
    return RemoteCall.open(http, server, method, bearer, leftMs)
        .compose(call -> {
          Timer deadline = vertx.timer(leftMs, TimeUnit.MILLISECONDS);
          deadline.onSuccess(v -> call.fail(late()));
          return carry.apply(call).onComplete(v -> deadline.cancel());
        })
        .onSuccess(done -> trouble = "")
        .recover(error -> Future.failedFuture(told(error, deadlineNs)));
  }

  private static Failure late() {
    return new Failure(Status.DEADLINE, "the daemon did not answer in time");
  }

  private Failure told(Throwable error, long deadlineNs) {
    Failure failure = failure(error, deadlineNs);
    trouble = settings.address() + ": " + failure.why();
    return failure;
  }

  private static Failure failure(Throwable error, long deadlineNs) {
    return switch (error) {
      case Failure failure -> failure;
      case StreamResetException e ->
          System.nanoTime() - deadlineNs >= 0
              ? late()
              : new Failure(Status.UNAVAILABLE, "the daemon broke the call off");
      default -> {
        String words = error.getMessage() == null ? error.toString() : error.getMessage();
        yield System.nanoTime() - deadlineNs >= 0
            ? new Failure(Status.DEADLINE, words)
            : new Failure(Status.UNAVAILABLE, words);
      }
    };
  }

  /** The failure that a status of gRPC stands for. */
  static Failure failure(@Nullable GrpcStatus status, @Nullable String text) {
    GrpcStatus known = status == null || status == GrpcStatus.OK ? GrpcStatus.UNAVAILABLE : status;
    Status ours =
        switch (known) {
          case UNAVAILABLE -> Status.UNAVAILABLE;
          case DEADLINE_EXCEEDED -> Status.DEADLINE;
          case CANCELLED -> Status.CANCELLED;
          case UNAUTHENTICATED, PERMISSION_DENIED -> Status.DENIED;
          case RESOURCE_EXHAUSTED -> Status.BUSY;
          case INVALID_ARGUMENT -> Status.INVALID_ARGUMENT;
          default -> Status.INTERNAL;
        };
    return new Failure(ours, text == null || text.isEmpty() ? known.name() : text);
  }

  @Override
  public void close() {
    isClosed = true;
    trouble = "this client was closed";
    try {
      vertx.close().toCompletionStage().toCompletableFuture().get(STOP_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException e) {
      Log.warn("a remote client did not stop in order", e);
    }
  }
}

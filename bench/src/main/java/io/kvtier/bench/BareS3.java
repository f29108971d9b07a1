package io.kvtier.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.async.SdkPublisher;
import software.amazon.awssdk.core.checksums.RequestChecksumCalculation;
import software.amazon.awssdk.core.checksums.ResponseChecksumValidation;
import software.amazon.awssdk.core.client.config.SdkAdvancedAsyncClientOption;
import software.amazon.awssdk.http.crt.AwsCrtAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;

/**
 * The SDK's client in a loop, as little round it as can be: no header, no checksum, no deadline.
 */
final class BareS3 implements AutoCloseable {
  private final S3AsyncClient client;
  private final int concurrency;

  BareS3(S3ProxyProcess server, int concurrency) {
    this.concurrency = concurrency;
    client =
        S3AsyncClient.builder()
            .endpointOverride(server.endpoint())
            .region(Region.US_EAST_1)
            .credentialsProvider(server.credentials())
            .forcePathStyle(true)
            .requestChecksumCalculation(RequestChecksumCalculation.WHEN_REQUIRED)
            .responseChecksumValidation(ResponseChecksumValidation.WHEN_REQUIRED)
            .serviceConfiguration(s3 -> s3.chunkedEncodingEnabled(false))
            // As the store has it: without it, each end of a call costs a change of threads.
            .asyncConfiguration(c ->
                c.advancedOption(
                    SdkAdvancedAsyncClientOption.FUTURE_COMPLETION_EXECUTOR, Runnable::run))
            .httpClientBuilder(AwsCrtAsyncHttpClient.builder().maxConcurrency(64))
            .build();
  }

  void createBucket() {
    client.createBucket(request -> request.bucket(S3ProxyProcess.BUCKET)).join();
  }

  CompletableFuture<?> put(String name, ByteBuffer bytes) {
    return client.putObject(
        request -> request.bucket(S3ProxyProcess.BUCKET).key(name).ifNoneMatch("*"),
        AsyncRequestBody.fromByteBufferUnsafe(bytes));
  }

  CompletableFuture<?> get(String name, long offset, ByteBuffer target) {
    long last = offset + target.remaining() - 1;
    return client.getObject(
        request ->
            request.bucket(S3ProxyProcess.BUCKET).key(name).range("bytes=" + offset + "-" + last),
        new Filling(target));
  }

  CompletableFuture<?> delete(String name) {
    return client.deleteObject(request -> request.bucket(S3ProxyProcess.BUCKET).key(name));
  }

  /**
   * Carries out so many calls, some at a time.
   *
   * @return how long it took, in ns
   */
  long run(int count, IntFunction<CompletableFuture<?>> calls) throws InterruptedException {
    AtomicInteger next = new AtomicInteger();
    AtomicReference<@Nullable Throwable> failure = new AtomicReference<>();
    CountDownLatch ended = new CountDownLatch(count);
    long begun = System.nanoTime();
    for (int i = 0; i < Math.min(count, concurrency); i++) {
      begin(count, next, calls, failure, ended);
    }
    ended.await();
    long took = System.nanoTime() - begun;
    if (failure.get() != null) {
      throw new IllegalStateException("a bare call failed", failure.get());
    }
    return took;
  }

  private void begin(
      int count,
      AtomicInteger next,
      IntFunction<CompletableFuture<?>> calls,
      AtomicReference<@Nullable Throwable> failure,
      CountDownLatch ended) {
    int number = next.getAndIncrement();
    if (number < count) {
      var _ =
          calls
              .apply(number)
              .whenComplete((_, thrown) -> {
                if (thrown != null) {
                  failure.set(thrown);
                }
                begin(count, next, calls, failure, ended);
                ended.countDown();
              });
    }
  }

  @Override
  public void close() {
    client.close();
  }

  /** Copies the body into a buffer. */
  private static final class Filling
      implements AsyncResponseTransformer<GetObjectResponse, GetObjectResponse>,
          Subscriber<ByteBuffer> {
    private final ByteBuffer target;
    private final CompletableFuture<GetObjectResponse> done = new CompletableFuture<>();
    private @Nullable GetObjectResponse response;

    Filling(ByteBuffer target) {
      this.target = target;
    }

    @Override
    public CompletableFuture<GetObjectResponse> prepare() {
      return done;
    }

    @Override
    public void onResponse(GetObjectResponse answer) {
      response = answer;
    }

    @Override
    public void onStream(SdkPublisher<ByteBuffer> publisher) {
      publisher.subscribe(this);
    }

    @Override
    public void exceptionOccurred(Throwable error) {
      done.completeExceptionally(error);
    }

    @Override
    public void onSubscribe(Subscription subscription) {
      subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(ByteBuffer bytes) {
      target.put(bytes);
    }

    @Override
    public void onError(Throwable error) {
      done.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
      GetObjectResponse answer = response;
      if (answer == null) {
        done.completeExceptionally(new IllegalStateException("a body without an answer"));
      } else {
        done.complete(answer);
      }
    }
  }
}

package io.kvtier.tiers.object;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.async.SdkPublisher;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;

/** Writes the body of an answer straight into native memory. */
final class SegmentSink implements AsyncResponseTransformer<GetObjectResponse, StoreResult> {
  private final List<MemorySegment> parts;
  private final @Nullable PartDigest digest;
  private final CompletableFuture<StoreResult> outcome = new CompletableFuture<>();
  private volatile long announced = -1;

  SegmentSink(List<MemorySegment> parts, @Nullable PartDigest digest) {
    this.parts = parts;
    this.digest = digest;
  }

  @Override
  public CompletableFuture<StoreResult> prepare() {
    return outcome;
  }

  @Override
  public void onResponse(GetObjectResponse response) {
    Long length = response.contentLength();
    announced = length == null ? -1 : length;
  }

  @Override
  public void onStream(SdkPublisher<ByteBuffer> publisher) {
    publisher.subscribe(new Filling());
  }

  @Override
  public void exceptionOccurred(Throwable error) {
    outcome.completeExceptionally(error);
  }

  private final class Filling implements Subscriber<ByteBuffer> {
    private @Nullable Subscription subscription;
    private long received;
    private int part;
    private long partOffset;

    @Override
    public void onSubscribe(Subscription begun) {
      subscription = begun;
      begun.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(ByteBuffer buffer) {
      try {
        fill(buffer, MemorySegment.ofBuffer(buffer));
      } catch (IllegalStateException e) {
        // The call has ended: the memory is the caller's again.
        fail(new StoreResult.Cancelled());
      }
    }

    private void fill(ByteBuffer buffer, MemorySegment bytes) {
      long from = 0;
      while (from < bytes.byteSize()) {
        if (part == parts.size()) {
          fail(new StoreResult.Corrupt("the store sent more than was asked for"));
          return;
        }
        MemorySegment target = parts.get(part);
        long count = Math.min(bytes.byteSize() - from, target.byteSize() - partOffset);
        MemorySegment.copy(bytes, from, target, partOffset, count);
        if (digest != null) {
          digest.add(part, buffer.slice(buffer.position() + (int) from, (int) count));
        }
        from += count;
        partOffset += count;
        if (partOffset == target.byteSize()) {
          part++;
          partOffset = 0;
        }
      }
      received += bytes.byteSize();
    }

    private void fail(StoreResult result) {
      if (subscription != null) {
        subscription.cancel();
      }
      outcome.complete(result);
    }

    @Override
    public void onError(Throwable error) {
      outcome.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
      long expected = announced;
      if (expected >= 0 && received != expected) {
        outcome.complete(
            new StoreResult.Unavailable(
                "the answer ended after " + received + " of " + expected + " bytes"));
      } else {
        outcome.complete(new StoreResult.Done(received));
      }
    }
  }
}

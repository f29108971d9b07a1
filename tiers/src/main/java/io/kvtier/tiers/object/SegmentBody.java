package io.kvtier.tiers.object;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import software.amazon.awssdk.core.async.AsyncRequestBody;

/** The body of a put: native memory, which the client reads where it is. */
final class SegmentBody implements AsyncRequestBody {
  private final List<MemorySegment> parts;
  private final long bytes;

  SegmentBody(List<MemorySegment> parts) {
    this.parts = parts;
    this.bytes = parts.stream().mapToLong(MemorySegment::byteSize).sum();
  }

  @Override
  public Optional<Long> contentLength() {
    return Optional.of(bytes);
  }

  /** May be called several times: for a signature, and for the body itself. */
  @Override
  public void subscribe(Subscriber<? super ByteBuffer> subscriber) {
    subscriber.onSubscribe(new Emission(subscriber));
  }

  private final class Emission implements Subscription {
    private final Subscriber<? super ByteBuffer> subscriber;
    private final AtomicInteger wanted = new AtomicInteger();
    private final AtomicBoolean over = new AtomicBoolean();
    private int next;

    Emission(Subscriber<? super ByteBuffer> subscriber) {
      this.subscriber = subscriber;
    }

    @Override
    public void request(long n) {
      if (n <= 0) {
        if (over.compareAndSet(false, true)) {
          subscriber.onError(new IllegalArgumentException("so many were requested: " + n));
        }
        return;
      }
      // A subscriber asks for more from within onNext: only the outermost call goes on.
      int more = (int) Math.min(n, parts.size() + 1L);
      if (wanted.getAndAdd(more) > 0) {
        return;
      }
      do {
        emitOne();
      } while (!over.get() && wanted.decrementAndGet() > 0);
    }

    private void emitOne() {
      if (next < parts.size()) {
        try {
          subscriber.onNext(parts.get(next++).asByteBuffer().asReadOnlyBuffer());
        } catch (IllegalStateException e) {
          over.set(true);
          subscriber.onError(e);
          return;
        }
      }
      if (next == parts.size() && over.compareAndSet(false, true)) {
        subscriber.onComplete();
      }
    }

    @Override
    public void cancel() {
      over.set(true);
    }
  }
}

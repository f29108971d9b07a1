package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An operation: one request, or several where its keys are too many for one. With a listener it is
 * asynchronous, and the receiver answers it; otherwise the thread that submitted it waits.
 */
final class Batch {
  /** Null when there is no daemon; then every call was answered by the client itself. */
  final @Nullable Session session;

  final int count;

  /** The keys or ids of each call but the last. */
  final int chunk;

  final Call[] calls;
  private final AtomicInteger open;
  private final @Nullable Consumer<Batch> whenDone;

  Batch(@Nullable Session session, int count, int chunk, @Nullable Consumer<Batch> whenDone) {
    this.session = session;
    this.count = count;
    this.chunk = chunk;
    int chunks = Math.max(1, Math.ceilDiv(count, chunk));
    this.calls = new Call[chunks];
    this.open = new AtomicInteger(chunks);
    this.whenDone = whenDone;
  }

  boolean isAsync() {
    return whenDone != null;
  }

  /** Counts one call as answered; true for the last. */
  boolean closeOne() {
    return open.decrementAndGet() == 0;
  }

  void tellDone() {
    Consumer<Batch> listener = whenDone;
    if (listener != null) {
      listener.accept(this);
    }
  }

  int chunkCount(int index) {
    return Math.min(chunk, count - index * chunk);
  }

  /** The first reason why a call was not carried out, or OK. */
  Status status() {
    for (Call call : calls) {
      if (call.status != Status.OK) {
        return call.status;
      }
    }
    return Status.OK;
  }

  String detail() {
    for (Call call : calls) {
      if (call.status != Status.OK) {
        return call.detail();
      }
    }
    return "";
  }

  long value() {
    return calls[0].value;
  }

  Blocks blocks() {
    Blocks blocks = new Blocks(count);
    for (int c = 0; c < calls.length; c++) {
      Call call = calls[c];
      for (int i = chunkCount(c) - 1; i >= 0; i--) {
        blocks.set(c * chunk + i, call.blockStatus(i), call.tier(i));
      }
    }
    return blocks;
  }

  /** Asks the daemon to give up what still waits; it is answered all the same. */
  void cancel() {
    Session some = session;
    if (some != null) {
      some.cancel(this);
    }
  }

  /** Reads the answer, then gives the calls back. */
  <T> T read(Function<Batch, T> reader) {
    try {
      return reader.apply(this);
    } finally {
      Session some = session;
      if (some != null) {
        some.free(calls, calls.length);
      }
    }
  }
}

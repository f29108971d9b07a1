package io.kvtier.bench;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** Puts the same blocks over gRPC, again and again, as fast as it can. */
final class GreedyPuts implements AutoCloseable {
  private final GrpcCopies copies;
  private final AtomicBoolean running = new AtomicBoolean(true);
  private final AtomicReference<Exception> failure = new AtomicReference<>();
  private final AtomicLong bytes = new AtomicLong();
  private final Thread thread;

  /** Puts all of them once before it returns, so that what it may have is used up by then. */
  GreedyPuts(String address, int blockBytes, int blocks, int batch) throws Exception {
    copies = new GrpcCopies(address);
    copies.fill(blockBytes, blocks, batch);
    thread =
        Thread.ofPlatform()
            .start(() -> {
              try {
                while (running.get()) {
                  copies.fill(blockBytes, blocks, batch);
                  bytes.addAndGet((long) blockBytes * blocks);
                }
              } catch (Exception e) {
                failure.set(e);
              }
            });
  }

  /** What was put since it began, in whole rounds of all blocks. */
  long bytes() {
    return bytes.get();
  }

  /** Ends; throws what went wrong meanwhile. */
  void stop() throws Exception {
    running.set(false);
    thread.join();
    Exception wrong = failure.get();
    if (wrong != null) {
      throw wrong;
    }
  }

  @Override
  public void close() {
    running.set(false);
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    copies.close();
  }
}

package io.kvtier.bench.gpu;

import io.kvtier.tiers.gpu.CopyEngine;
import java.util.concurrent.CompletableFuture;

/** Copies without a pause, on a thread of its own, until it is told to stop. */
final class Flood {
  private final CompletableFuture<Workload.Result> result = new CompletableFuture<>();
  private volatile boolean goesOn = true;

  private Flood() {}

  /** Begins; the engine is the flood's until it has stopped. */
  static Flood start(Workload workload, CopyEngine engine, Workload.Mode mode) {
    Flood flood = new Flood();
    Thread ignored =
        Thread.ofPlatform()
            .daemon()
            .name("flood")
            .start(() -> {
              try {
                flood.result.complete(workload.run(engine, mode, () -> flood.goesOn));
              } catch (RuntimeException e) {
                flood.result.completeExceptionally(e);
              }
            });
    return flood;
  }

  /** Stops it, and waits for the copies in flight. */
  Workload.Result stop() {
    goesOn = false;
    return result.join();
  }
}

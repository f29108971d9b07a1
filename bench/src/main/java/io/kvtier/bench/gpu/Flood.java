package io.kvtier.bench.gpu;

import io.kvtier.tiers.gpu.CopyEngine;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Copies without a pause, in each direction on a thread of its own, until it is told to stop. */
final class Flood {
  private final List<CompletableFuture<Workload.Result>> results = new ArrayList<>();
  private volatile boolean goesOn = true;

  /** Adds a direction, and begins; the engine is the flood's until it has stopped. */
  void start(Workload workload, CopyEngine engine) {
    CompletableFuture<Workload.Result> result = new CompletableFuture<>();
    results.add(result);
    Thread ignored =
        Thread.ofPlatform()
            .daemon()
            .name("flood-" + engine.direction())
            .start(() -> {
              try {
                result.complete(workload.run(engine, () -> goesOn));
              } catch (RuntimeException e) {
                result.completeExceptionally(e);
              }
            });
  }

  /** Stops it, and waits for the copies in flight. */
  Workload.Result stop() {
    goesOn = false;
    Workload.Result all = null;
    for (CompletableFuture<Workload.Result> result : results) {
      all = all == null ? result.join() : all.with(result.join());
    }
    return all == null ? new Workload.Result(0, 1, 0, "failed nothing was started") : all;
  }
}

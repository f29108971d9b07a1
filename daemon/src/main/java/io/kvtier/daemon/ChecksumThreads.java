package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.CopyConfig;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.LanePipelines;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.ThreadedPipeline;
import io.kvtier.tiers.transfer.ThreadedPipeline.Workers;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/** The threads that make checksums: each near the memory that it reads, if it matters. */
final class ChecksumThreads {
  private ChecksumThreads() {}

  /**
   * Starts the threads. Homes share them by their slabs, and each home has at least one. With fewer
   * threads than homes, each thread reads all memory.
   */
  static Pipeline start(
      CopyConfig config, NumaHomes homes, Runnable finishedBell, Consumer<Throwable> defect) {
    Function<Workers, Pipeline> start =
        workers ->
            new ThreadedPipeline(
                workers, config.queueDepth(), Checksums::run, null, finishedBell, defect);
    List<NumaPlan.Home> all = homes.all();
    if (all.size() < 2 || config.threads() < all.size()) {
      int only = all.size() == 1 ? 0 : NumaHomes.NONE;
      return start.apply(new Workers("kvtier-copy", config.threads(), () -> homes.enter(only)));
    }
    List<Pipeline> lanes = new ArrayList<>();
    int[] threads = share(config.threads(), all.stream().mapToInt(NumaPlan.Home::slabs).toArray());
    for (int home = 0; home < threads.length; home++) {
      int one = home;
      String name = "kvtier-copy-numa" + all.get(home).node();
      lanes.add(start.apply(new Workers(name, threads[home], () -> homes.enter(one))));
    }
    return new LanePipelines(lanes);
  }

  /** Shares threads out by weights, at least one to each. */
  static int[] share(int threads, int[] weights) {
    int[] shares = new int[weights.length];
    Arrays.fill(shares, 1);
    for (int left = threads - weights.length; left > 0; left--) {
      int next = 0;
      for (int one = 1; one < weights.length; one++) {
        next = (shares[one] + 1L) * weights[next] < (shares[next] + 1L) * weights[one] ? one : next;
      }
      shares[next]++;
    }
    return shares;
  }
}

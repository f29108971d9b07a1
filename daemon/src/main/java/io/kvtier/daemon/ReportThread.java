package io.kvtier.daemon;

import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** The thread that makes the JSON of STATS. It lives only while clients ask. */
final class ReportThread implements Executor, AutoCloseable {
  private static final long IDLE_S = 10;

  private final ThreadPoolExecutor pool;
  private final Runnable indexBell;

  /**
   * A thread that is not started yet.
   *
   * @param indexBell wakes the index after each task
   * @param defect takes what a task throws
   */
  ReportThread(Runnable indexBell, Consumer<Throwable> defect) {
    this.indexBell = indexBell;
    pool =
        new ThreadPoolExecutor(
            0,
            1,
            IDLE_S,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            task ->
                Thread.ofPlatform()
                    .name("kvtier-report")
                    .daemon()
                    .uncaughtExceptionHandler((thread, thrown) -> defect.accept(thrown))
                    .unstarted(task));
  }

  @Override
  public void execute(Runnable task) {
    pool.execute(() -> {
      task.run();
      indexBell.run();
    });
  }

  /** Gives up what is not made yet; after the index's end. */
  @Override
  public void close() {
    pool.shutdownNow();
  }
}

package io.kvtier.tiers.object;

import java.io.IOException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Asks a question that blocks on threads of its own, and gives up at the deadline. */
public final class ThreadedProbe implements ObjectProbe, AutoCloseable {
  private static final int WAITING_MAX = 1024;
  private static final long CLOSE_MS = 5_000;

  /** A question that may block. */
  @FunctionalInterface
  public interface Question {
    /** Says whether there is an object of a name. */
    boolean has(String name) throws IOException;
  }

  private final String description;
  private final Question question;
  private final StoreCalls calls;
  private final ThreadPoolExecutor threads;

  /**
   * A probe whose threads start with the first questions.
   *
   * @param threadName of the threads
   * @param description of what is asked, for people
   */
  public ThreadedProbe(String threadName, String description, int threadCount, Question question) {
    this.description = description;
    this.question = question;
    calls = new StoreCalls(threadName + "-deadlines");
    threads =
        new ThreadPoolExecutor(
            threadCount,
            threadCount,
            1,
            TimeUnit.MINUTES,
            new ArrayBlockingQueue<>(WAITING_MAX),
            task -> Thread.ofPlatform().daemon().name(threadName).unstarted(task));
    threads.allowCoreThreadTimeOut(true);
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    StoreCall call = calls.begin(timeoutNs);
    if (call.hasEnded()) {
      return call;
    }
    try {
      Future<?> future = threads.submit(() -> call.end(outcome(name)));
      call.onAbort(() -> future.cancel(true));
    } catch (RejectedExecutionException e) {
      call.end(new StoreResult.Throttled(0));
    }
    return call;
  }

  private StoreResult outcome(String name) {
    try {
      return question.has(name) ? new StoreResult.Done(0) : new StoreResult.Absent();
    } catch (IOException | RuntimeException | LinkageError e) {
      return new StoreResult.Unavailable(String.valueOf(e));
    }
  }

  @Override
  public String describe() {
    return description;
  }

  @Override
  public void close() {
    calls.close();
    threads.shutdownNow();
    try {
      var _ = threads.awaitTermination(CLOSE_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

package io.kvtier.daemon.session;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Closes what strangers have passed, on threads that nothing depends on: a socket that lingers, or
 * a file of a file system that its sender runs, takes as long to close as its sender likes. Where
 * all threads are taken up by such, more stay open.
 */
final class Closer {
  private static final Logger LOG = LoggerFactory.getLogger(Closer.class);
  private static final int THREADS_MAX = 16;
  private static final int WAITING_MAX = 1024;

  private final ThreadPoolExecutor threads;

  Closer() {
    threads =
        new ThreadPoolExecutor(
            THREADS_MAX,
            THREADS_MAX,
            1,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(WAITING_MAX),
            Thread.ofPlatform().daemon().name("kvtier-closer-", 0).factory());
    threads.allowCoreThreadTimeOut(true);
  }

  /**
   * Does what may take for ever.
   *
   * @return whether it will
   */
  boolean run(int process, int user, Runnable close) {
    try {
      threads.execute(close);
      return true;
    } catch (RejectedExecutionException e) {
      LOG.warn(
          "a descriptor of process {} (user {}) stays open, as {} others before it do not close: end"
              + " the processes that passed those, or take the right to connect from their users"
              + " (socket.users, socket.groups)",
          process,
          Integer.toUnsignedString(user),
          THREADS_MAX + WAITING_MAX);
      return false;
    }
  }
}

package io.kvtier.client.internal.session;

import io.kvtier.client.internal.shared.Log;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The thread that answers asynchronous operations. It waits on the session only while one is in
 * flight, and is started by the first.
 */
public final class Receiver implements Runnable {
  private final Connector connector;
  private final Queue<Batch> answered = new ConcurrentLinkedQueue<>();
  private volatile @Nullable Thread thread;
  private volatile boolean closed;

  /** The thread has gone, or is about to look for answers for the last time. */
  private volatile boolean ended;

  public Receiver(Connector connector) {
    this.connector = connector;
  }

  /**
   * Takes an operation whose last call was answered; its listener runs on the receiver's thread.
   */
  public void answered(Batch batch) {
    answered.add(batch);
    wake();
  }

  /** An asynchronous operation was submitted. */
  public void wake() {
    Thread running = thread;
    // A call that ran while the client was closed is answered late, by a thread that does only
    // that.
    if (running == null || ended) {
      running = start();
    }
    LockSupport.unpark(running);
  }

  /** The session has ended, or another has begun. */
  public void wakeIfRunning() {
    Thread running = thread;
    if (running != null) {
      LockSupport.unpark(running);
    }
  }

  private synchronized Thread start() {
    Thread running = thread;
    if (running == null || ended) {
      running = Thread.ofPlatform().daemon().name("kvtier-receive").unstarted(this);
      thread = running;
      ended = false;
      try {
        running.start();
      } catch (Error e) {
        // There may be no further thread now: the next operation tries again.
        ended = true;
        throw e;
      }
    }
    return running;
  }

  @Override
  public void run() {
    try {
      while (!closed) {
        tell();
        await();
      }
    } finally {
      ended = true;
      if (closed) {
        tell();
      } else {
        // An error, as where the heap is full: nobody else answers, not even at a deadline.
        wake();
      }
    }
  }

  /** Waits for something to tell, or for an operation to wait for. */
  private void await() {
    Session session = connector.current();
    if (session == null || !session.hasAsyncCalls() || !session.lifetime().beginUse()) {
      if (answered.isEmpty() && !closed) {
        LockSupport.park(this);
        // Nothing here is interrupted on purpose; an interrupt must not make the thread spin.
        boolean ignored = Thread.interrupted();
      }
      return;
    }
    try {
      session.awaitAsync(() -> !answered.isEmpty() || closed);
    } finally {
      session.lifetime().endUse();
    }
  }

  private void tell() {
    for (Batch batch = answered.poll(); batch != null; batch = answered.poll()) {
      try {
        batch.tellDone();
      } catch (RuntimeException | Error e) {
        Log.warn("the answer of an operation could not be handed over", e);
      }
    }
  }

  /** Answers what is left, then ends. Everything in flight has been answered before. */
  public void close() {
    closed = true;
    Thread running = thread;
    if (running != null && !running.equals(Thread.currentThread())) {
      LockSupport.unpark(running);
      try {
        running.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}

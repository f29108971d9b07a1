package io.kvtier.daemon;

import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Joining;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The index's thread. It works while there is work, spins briefly when there is none, as long as
 * that pays ({@link SpinJudge}) and no client needs its processor ({@link IndexProcessor}), and a
 * little longer where a load is about to be asked for, then announces that it sleeps, looks once
 * more, and waits for a doorbell. A defect in the index ends the process: its state can't be
 * trusted any more.
 */
final class IndexRunner implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(IndexRunner.class);

  // About the cost of one sleep and wake-up (30 to 50 us on virtual machines): spinning longer
  // loses
  // more than it can win, and much less puts every second call of a client to sleep for nothing.
  private static final long SPIN_NS = 50_000;

  // A bell without a request announces one: a client that copies its last bytes rings before it
  // commits.
  private static final long ANNOUNCED_SPIN_NS = 100_000;

  // A block of a few MiB is copied to or from a GPU in less.
  private static final long COPYING_SPIN_NS = 150_000;

  private static final long CLOSE_MS = 5_000;

  private final IndexAgent agent;
  private final MemorySegment daemonRegion;
  private final Epoll epoll;
  private final EventFd bell;
  private final IndexProcessor processor;
  private final Runnable atStart;
  private final Thread thread;
  private final AtomicLong passes = new AtomicLong();
  private volatile boolean running = true;

  /**
   * A thread that is not started yet.
   *
   * @param processor hears when the index has no more work
   * @param atStart what the thread does first
   */
  IndexRunner(
      IndexAgent agent,
      MemorySegment daemonRegion,
      Epoll epoll,
      EventFd bell,
      IndexProcessor processor,
      Runnable atStart) {
    this.atStart = atStart;
    this.agent = agent;
    this.daemonRegion = daemonRegion;
    this.epoll = epoll;
    this.bell = bell;
    this.processor = processor;
    this.thread = Thread.ofPlatform().name("kvtier-index").unstarted(this::run);
  }

  void start() {
    thread.start();
  }

  /** How often the index has looked for work: twice a second at least, while nothing is broken. */
  long passes() {
    return passes.getAcquire();
  }

  private void run() {
    try {
      atStart.run();
      SpinJudge judge = new SpinJudge();
      boolean isJudged = false;
      long idleSince = 0;
      SpinClock spin = SpinClock.ofThisThread();
      long spinNs = SPIN_NS;
      while (running) {
        passes.setRelease(passes.getPlain() + 1);
        if (agent.doWork() > 0) {
          if (isJudged) {
            if (spin.isDisplaced()) {
              judge.displaced();
            } else {
              judge.won();
            }
            isJudged = false;
          }
          idleSince = 0;
          spinNs = SPIN_NS;
          continue;
        }
        long now = System.nanoTime();
        if (idleSince == 0) {
          idleSince = now;
          if (processor.rest()) {
            spinNs = 0;
          } else if (spinNs == SPIN_NS) {
            // The others are not judged: who has announced something brings it.
            isJudged = judge.isWorthIt();
            spinNs = isJudged ? SPIN_NS : 0;
            if (isJudged) {
              spin.begin(now);
            }
          }
        }
        if (now - idleSince < spinNs || isNeeded(now, idleSince)) {
          Thread.onSpinWait();
          continue;
        }
        if (isJudged) {
          if (spin.isDisplaced()) {
            judge.displaced();
          } else {
            judge.lost();
          }
          isJudged = false;
        }
        Words.putIntVolatile(daemonRegion, DaemonRegionDescriptor.INDEX_WAITING_OFFSET, 1);
        // The announcement must be visible before the last look: whoever comes after it rings.
        Words.fullFence();
        if (!agent.hasWork()) {
          boolean rung = epoll.await(agent.sleepMsMax()) > 0;
          spin.wake();
          // After a time-out there is no reason to spin again.
          spinNs = rung ? ANNOUNCED_SPIN_NS : 0;
          idleSince = 0;
        }
        Words.putIntVolatile(daemonRegion, DaemonRegionDescriptor.INDEX_WAITING_OFFSET, 0);
      }
    } catch (Throwable t) {
      LOG.error("the index is broken; the daemon stops", t);
      Runtime.getRuntime().halt(70);
    }
  }

  /** Whether somebody is known to need it in a moment. */
  private boolean isNeeded(long nowNs, long idleSinceNs) {
    return (agent.isCopying() && nowNs - idleSinceNs < COPYING_SPIN_NS)
        || agent.isLoadExpected(nowNs);
  }

  @Override
  public void close() {
    running = false;
    bell.ring();
    if (Joining.within(thread, CLOSE_MS)) {
      agent.stop();
    }
  }
}

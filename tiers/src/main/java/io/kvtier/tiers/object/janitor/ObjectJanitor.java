package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectCipher;
import io.kvtier.tiers.object.ObjectStore;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks after the objects of a store, on a thread of its own: one task at a time, which others
 * start, watch and cancel. It makes its calls one after the other and no more of a second than
 * told, and ends each task within a time. Safe for several threads.
 *
 * <p>Memory does not grow with the number of objects: a page of the list, a histogram of some 30
 * KB, and at most {@value UseTable#BYTES_PER_USE} bytes for each use that the logs of all nodes
 * tell.
 */
public final class ObjectJanitor implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectJanitor.class);
  private static final int TRIES = 5;

  /** The part of a run's time that is reserved for giving the lease back. */
  private static final long FAREWELL_NS = TimeUnit.SECONDS.toNanos(5);

  /**
   * The bound of the object tier.
   *
   * @param bytes of all nodes' blocks; 0 for no limit
   * @param lowPercent the part of the cap that a run leaves if it deletes
   * @param graceMs younger objects stay
   */
  public record Cap(long bytes, int lowPercent, long graceMs) {
    public Cap {
      if (bytes < 0 || graceMs < 0) {
        throw new IllegalArgumentException(
            "the cap ("
                + bytes
                + " bytes) and the grace time ("
                + graceMs
                + " ms) of the object tier are not below 0");
      }
      if (lowPercent < 1 || lowPercent > 100) {
        throw new IllegalArgumentException(
            "of the object tier's cap 1 to 100 % are left, not " + lowPercent);
      }
    }

    /** The bytes that a run leaves if it deletes. */
    long lowBytes() {
      return bytes / 100 * lowPercent + bytes % 100 * lowPercent / 100;
    }
  }

  /**
   * How fast a run goes, and how long it takes at most.
   *
   * @param leaseMs how long a node that has died keeps others from collecting
   */
  public record Pace(int callsPerSecond, long callTimeoutMs, long runMs, long leaseMs) {
    public Pace {
      requirePositive("the calls of a second", callsPerSecond);
      requirePositive("the time of a call", callTimeoutMs);
      requirePositive("the time of a run", runMs);
      requirePositive("the time of a lease", leaseMs);
    }
  }

  /**
   * The uses of objects that a run knows.
   *
   * @param max the most uses
   * @param keptMs older logs of uses are deleted
   */
  public record KnownUses(int max, long keptMs) {
    public KnownUses {
      if (max < 0 || max > 1 << 28) {
        throw new IllegalArgumentException(
            "the object tier knows 0 to " + (1 << 28) + " uses, not " + max);
      }
      requirePositive("the time that logs of uses are kept", keptMs);
    }
  }

  /**
   * The bounds of a janitor.
   *
   * @param unfinishedMs older uploads and temporary files of writers are removed
   */
  public record Options(Cap cap, Pace pace, KnownUses uses, long unfinishedMs) {
    public Options {
      requirePositive("the age of unfinished writes", unfinishedMs);
    }

    /** A cap, with the usual pace. */
    public static Options of(long capBytes) {
      return new Options(
          new Cap(capBytes, 95, TimeUnit.MINUTES.toMillis(10)),
          new Pace(
              50,
              TimeUnit.SECONDS.toMillis(30),
              TimeUnit.HOURS.toMillis(1),
              TimeUnit.MINUTES.toMillis(5)),
          new KnownUses(1 << 20, TimeUnit.DAYS.toMillis(7)),
          TimeUnit.DAYS.toMillis(1));
    }
  }

  private static void requirePositive(String what, long value) {
    if (value <= 0) {
      throw new IllegalArgumentException(
          what + " of the object janitor: " + value + " is not positive");
    }
  }

  /** A task under way. */
  private record Running(Thread thread, JanitorCalls calls) {}

  private final ObjectStore store;
  private final Options options;
  private final @Nullable ObjectCipher cipher;
  private final JanitorClock clock;
  private final JanitorCalls.Bounds bounds;
  private final ObjectLease lease;
  private final Object lock = new Object();
  private @Nullable Running running;
  private boolean closed;
  private volatile JanitorReport report;

  /**
   * A janitor without a task.
   *
   * @param store closed by the caller
   * @param nodeName the unique name of this node, which other nodes see
   * @param cipher decrypts the blocks that are verified; null for none
   * @param deletions called with the names of objects before and after their deletion, on the
   *     thread of the task
   */
  public ObjectJanitor(
      ObjectStore store,
      String nodeName,
      Options options,
      @Nullable ObjectCipher cipher,
      Consumer<List<String>> deletions) {
    this(store, nodeName, options, cipher, deletions, JanitorClock.SYSTEM);
  }

  ObjectJanitor(
      ObjectStore store,
      String nodeName,
      Options options,
      @Nullable ObjectCipher cipher,
      Consumer<List<String>> deletions,
      JanitorClock clock) {
    this.store = store;
    this.cipher = cipher;
    this.options = options;
    this.clock = clock;
    bounds =
        new JanitorCalls.Bounds(
            TimeUnit.SECONDS.toNanos(1) / options.pace().callsPerSecond(),
            TimeUnit.MILLISECONDS.toNanos(options.pace().callTimeoutMs()),
            TRIES,
            deletions);
    lease = new ObjectLease(ReservedNames.checkNode(nodeName), options.pace().leaseMs(), clock);
    report =
        new Tally(_ -> {}).report("", JanitorReport.State.IDLE, "", 0, 0, options.cap().bytes());
  }

  /**
   * Begins a task.
   *
   * @return false when one is under way, or this is closed
   */
  public boolean start(JanitorTask task) {
    synchronized (lock) {
      if (closed || running != null) {
        return false;
      }
      long beginNs = clock.nanoTime();
      long endNs = beginNs + TimeUnit.MILLISECONDS.toNanos(options.pace().runMs());
      Thread thread =
          Thread.ofPlatform()
              .daemon()
              .name("object-janitor")
              .unstarted(() -> work(task, beginNs, endNs));
      long workEndNs = endNs - Math.min(FAREWELL_NS, (endNs - beginNs) / 10);
      running = new Running(thread, new JanitorCalls(store, clock, bounds, thread, workEndNs));
      report =
          new Tally(_ -> {})
              .report(task.name(), JanitorReport.State.RUNNING, "", 0, 0, options.cap().bytes());
      thread.start();
      return true;
    }
  }

  private void work(JanitorTask task, long beginNs, long endNs) {
    JanitorCalls calls = callsUnderWay();
    Tally tally =
        new Tally(
            now -> report = report(task, now, JanitorReport.State.RUNNING, "", beginNs, calls));
    JanitorReport last =
        report(task, tally, JanitorReport.State.FAILED, "it ended early", beginNs, calls);
    try {
      last = carryOut(task, tally, beginNs, endNs, calls);
    } finally {
      // However it ended, the next task may begin.
      synchronized (lock) {
        report = last;
        running = null;
        lock.notifyAll();
      }
    }
  }

  private JanitorReport carryOut(
      JanitorTask task, Tally tally, long beginNs, long endNs, JanitorCalls calls) {
    JanitorReport.State state = JanitorReport.State.DONE;
    String reason = "";
    try {
      runOf(task).run(calls, tally);
      reason = tally.note();
    } catch (RunEnd e) {
      state = e.state();
      reason = e.reason();
    } catch (Throwable e) {
      // Also too little memory for its tables: the next task may need less.
      LOG.error("the task {} on {} failed", task.name(), store.describe(), e);
      state = JanitorReport.State.FAILED;
      reason = e.toString();
    }
    giveBack(endNs);
    JanitorReport last = report(task, tally, state, reason, beginNs, calls);
    LOG.info(
        "{} on {}: {}{}; {} deleted, {} left",
        task.name(),
        store.describe(),
        state.words(),
        reason.isEmpty() ? "" : ", " + reason,
        last.amount(JanitorCount.DELETED).words(),
        last.amount(JanitorCount.LEFT).words());
    return last;
  }

  private JanitorCalls callsUnderWay() {
    synchronized (lock) {
      Running now = running;
      if (now == null) {
        throw new IllegalStateException("a task that was not started runs");
      }
      return now.calls();
    }
  }

  private JanitorRun runOf(JanitorTask task) {
    return switch (task) {
      case JanitorTask.Gc _ -> new CollectRun(options, lease);
      case JanitorTask.Du _ -> new MeasureRun();
      case JanitorTask.Verify verify -> new VerifyRun(verify, cipher);
      case JanitorTask.RemoveNamespace remove -> new RemoveRun(remove);
    };
  }

  /** With calls of its own: a task that was cancelled gives the lease back too. */
  private void giveBack(long endNs) {
    long farewellNs = Math.min(endNs, clock.nanoTime() + FAREWELL_NS);
    try {
      lease.release(new JanitorCalls(store, clock, bounds, Thread.currentThread(), farewellNs));
    } catch (RunEnd e) {
      LOG.info(
          "the lease on {} was not given back, and has to run out: {}",
          store.describe(),
          e.reason());
    } catch (RuntimeException | Error e) {
      LOG.error("the lease on {} was not given back, and has to run out", store.describe(), e);
    }
  }

  private JanitorReport report(
      JanitorTask task,
      Tally tally,
      JanitorReport.State state,
      String reason,
      long beginNs,
      JanitorCalls calls) {
    return tally.report(
        task.name(),
        state,
        reason,
        TimeUnit.NANOSECONDS.toMillis(clock.nanoTime() - beginNs),
        calls.made(),
        options.cap().bytes());
  }

  /** How far the task under way is, or how the last one ended. */
  public JanitorReport report() {
    return report;
  }

  /**
   * Ends the task under way soon.
   *
   * @return false when there is none
   */
  public boolean cancel() {
    synchronized (lock) {
      if (running == null) {
        return false;
      }
      running.calls().cancel();
      return true;
    }
  }

  /** Waits for the end of the task under way, if there is one. */
  public JanitorReport await() throws InterruptedException {
    synchronized (lock) {
      while (running != null) {
        lock.wait();
      }
      return report;
    }
  }

  /** Cancels the task under way and waits until it has ended. */
  @Override
  public void close() {
    Thread thread = null;
    synchronized (lock) {
      closed = true;
      if (running != null) {
        running.calls().cancel();
        thread = running.thread();
      }
    }
    if (thread == null) {
      return;
    }
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

package io.kvtier.tiers.outer;

import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.ThreadedProbe;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.ThreadedPipeline;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.LoggerFactory;

/**
 * A plug-in's source, with threads for reads and for questions, a cache of the answers, and pauses
 * while the source fails.
 */
public final class OuterTier implements AutoCloseable {
  /** The most reads that are under way or wait. */
  public static final int DEPTH = 64;

  private static final long PRESENCE_BYTES = 16L << 20;
  private static final long PRESENT_NS = TimeUnit.MINUTES.toNanos(10);
  private static final long ABSENT_NS = TimeUnit.SECONDS.toNanos(10);
  private static final long PROBE_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(1);

  private final OuterSource source;
  private final Breaker breaker;
  private final ThreadedProbe probe;
  private final PresenceCache presence;
  private final ThreadedPipeline pipeline;

  /**
   * Starts the threads.
   *
   * @param source closed with this
   * @param threads for reads; there are as many for questions
   * @param bell wakes the index
   * @param defect told of what should never happen
   */
  public OuterTier(
      String name, OuterSource source, int threads, Runnable bell, Consumer<Throwable> defect) {
    this.source = source;
    String threadName = "kvtier-source-" + name;
    String description = "source '" + name + "'";
    breaker = new Breaker(threads, System::nanoTime);
    probe =
        new ThreadedProbe(
            threadName + "-asks",
            description,
            threads,
            block -> source.has(BlockName.ofObject(block)));
    presence =
        new PresenceCache(
            probe,
            new PresenceCache.Options(
                PRESENCE_BYTES, PRESENT_NS, ABSENT_NS, threads, PROBE_TIMEOUT_NS),
            null);
    TroubleLog troubles = new TroubleLog(LoggerFactory.getLogger(OuterTier.class), description);
    pipeline =
        new ThreadedPipeline(
            threadName,
            threads,
            DEPTH,
            new OuterReads(source, breaker, troubles),
            null,
            bell,
            defect);
  }

  /** Reads blocks. */
  public Pipeline pipeline() {
    return pipeline;
  }

  /** The blocks that are known to be there, or not to be there. */
  public PresenceCache presence() {
    return presence;
  }

  /** Whether a read would be tried now. */
  public boolean isOpen() {
    return breaker.lets();
  }

  /** Waits some seconds for calls of the source that are under way. */
  @Override
  public void close() {
    try {
      source.close();
    } catch (Exception e) {
      LoggerFactory.getLogger(OuterTier.class).warn("a source was not closed", e);
    }
    probe.close();
    pipeline.close();
  }
}

package io.kvtier.tiers.object;

import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.QueuedPipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TransferQueues;
import io.kvtier.tiers.transfer.TroubleLog;
import java.lang.foreign.Arena;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores blocks into an {@link ObjectStore} and loads them from it. One thread decides, and never
 * waits for the store. The store makes calls on threads of its own, and workers run codecs.
 *
 * <p>Loads go before stores: while a load waits for its turn, at most one store is under way. Each
 * way has its own bounds: a number of calls that adapts to the store, bytes a second, a budget for
 * second tries, and a breaker. While the store is down, the breaker makes loads misses and fails
 * stores at once. Every transfer ends by its deadline, which includes its time in the queue.
 *
 * <p>Outcomes of a load:
 *
 * <ul>
 *   <li>OK, with the checksum, generation, parent and depth of the object
 *   <li>MISS if there is no object, this node has no key for it, or the breaker is open
 *   <li>TOO_LARGE if the object is the block in another form, which has another length
 *   <li>CORRUPT, VERSION_MISMATCH, DENIED, DEADLINE, IO_ERROR
 * </ul>
 *
 * <p>Outcomes of a store:
 *
 * <ul>
 *   <li>OK, also if the object was there already
 *   <li>CORRUPT if the slot no longer holds the bytes that were accepted
 *   <li>DENIED by the store, or because only other nodes can read the object that is there
 *   <li>DEADLINE, IO_ERROR
 * </ul>
 */
public final class ObjectPipeline extends QueuedPipeline {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectPipeline.class);
  private static final int ONLY_WORKER = 0;

  private static final ObjectLaneLog.Words LOAD_WORDS =
      new ObjectLaneLog.Words(
          "{} does not answer: {}. Until it answers, blocks that are only there are misses",
          "{} answers again",
          "a block can't be loaded");
  private static final ObjectLaneLog.Words STORE_WORDS =
      new ObjectLaneLog.Words(
          "{} takes no blocks: {}. Until it takes blocks, those that no other tier has space"
              + " for are dropped",
          "{} takes blocks again",
          "a block can't be stored");

  /**
   * The clock and the threads of a pipeline.
   *
   * @param workers run codecs and ciphers; an {@link ExecutorService} is shut down at the end
   * @param threadName null for no thread: the caller calls {@link #step}
   */
  record Runners(LongSupplier clock, Executor workers, @Nullable String threadName) {}

  private final LongSupplier clock;
  private final @Nullable ExecutorService workers;
  private final Consumer<Throwable> defect;
  private final TransferQueues queues;
  private final ObjectCounters counters = new ObjectCounters();
  private final Arena arena = Arena.ofShared();
  private final @Nullable Thread thread;
  private final ObjectLane loads;
  private final ObjectLane stores;
  private final ObjectCalls calls;
  private final ObjectOperations operations;
  private final ObjectTries tries;
  private volatile boolean running = true;
  private boolean closed;

  /** Without a cipher: blocks are stored as the codec leaves them. */
  public ObjectPipeline(
      String name,
      ObjectStore store,
      ObjectPipelineOptions options,
      @Nullable PresenceCache presence,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this(name, store, options, null, presence, finishedBell, defect);
  }

  /**
   * Starts the threads.
   *
   * @param store not closed by this
   * @param cipher encrypts what is stored; null for no encryption
   * @param presence told of objects that are there and that are not; null for nobody
   * @param finishedBell wakes the collecting thread
   * @param defect told of what a thread threw, which it never should: transfers will not come back
   */
  public ObjectPipeline(
      String name,
      ObjectStore store,
      ObjectPipelineOptions options,
      @Nullable ObjectCipher cipher,
      @Nullable PresenceCache presence,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this(
        new Runners(
            System::nanoTime,
            Executors.newFixedThreadPool(
                options.capacity().workers(),
                Thread.ofPlatform().daemon().name(name + "-worker-", 0).factory()),
            name),
        store,
        options,
        cipher,
        presence,
        finishedBell,
        defect);
  }

  /** With a clock and workers of the caller's. */
  ObjectPipeline(
      Runners runners,
      ObjectStore store,
      ObjectPipelineOptions options,
      @Nullable ObjectCipher cipher,
      @Nullable PresenceCache presence,
      Runnable finishedBell,
      Consumer<Throwable> defect) {
    this.defect = defect;
    clock = runners.clock;
    workers = runners.workers instanceof ExecutorService service ? service : null;
    String name = store.describe();
    TroubleLog troubles = new TroubleLog(LOG, name);
    long now = clock.getAsLong();
    loads = ObjectLane.ofLoads(options, now, new ObjectLaneLog(LOG, name, troubles, LOAD_WORDS));
    stores = ObjectLane.ofStores(options, now, new ObjectLaneLog(LOG, name, troubles, STORE_WORDS));
    int depth = options.capacity().depth();
    operations = new ObjectOperations(depth, arena, cipher);
    queues = new TransferQueues(depth, 1, _ -> wake(), null, finishedBell);
    calls =
        new ObjectCalls(
            store,
            new ObjectCalls.Means(
                BlockCodecs.create(options.codec()),
                cipher != null,
                options.times().hedgeAfterNs(),
                clock,
                runners.workers,
                this::wake,
                defect),
            counters);
    tries =
        new ObjectTries(
            new ObjectLanes(loads, stores),
            operations,
            calls,
            new ObjectFindings(cipher, presence, counters),
            counters,
            queues,
            clock);
    thread =
        runners.threadName == null
            ? null
            : Thread.ofPlatform().daemon().name(runners.threadName).unstarted(this::work);
    if (thread != null) {
      thread.start();
    }
  }

  @Override
  protected TransferQueues queues() {
    return queues;
  }

  /** The value of a counter. From any thread. */
  public long count(ObjectCounter counter) {
    return counters.sum(counter);
  }

  /** Changes the caps of later calls; 0 for none. From any thread. */
  public void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
    loads.cap.change(loadBytesPerSecond);
    stores.cap.change(storeBytesPerSecond);
    // The thread may sleep for as long as the former caps told it to.
    wake();
  }

  /** Whether a load would be tried now; from any thread, a little late. */
  public boolean reachesStore() {
    return loads.breaker.state(clock.getAsLong()) != CircuitBreaker.State.OPEN;
  }

  /** Whether a store would be tried now; from any thread, a little late. */
  public boolean takesStores() {
    return stores.breaker.state(clock.getAsLong()) != CircuitBreaker.State.OPEN;
  }

  /** Why loads are not tried now, or are tried one at a time; empty when all is well. */
  public String loadTrouble() {
    return loads.log.trouble();
  }

  /** Why stores are not tried now, or are tried one at a time; empty when all is well. */
  public String storeTrouble() {
    return stores.log.trouble();
  }

  private void wake() {
    LockSupport.unpark(thread);
  }

  private void work() {
    try {
      while (running) {
        step();
        queues.announceIdle(ONLY_WORKER);
        if (running && !calls.hasEvents() && !step()) {
          long wait = tries.dueNs() - clock.getAsLong();
          if (wait > 0) {
            LockSupport.parkNanos(this, wait);
          }
        }
        queues.retractIdle(ONLY_WORKER);
      }
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  /**
   * Does all that can be done now.
   *
   * @return whether there was anything
   */
  boolean step() {
    boolean any = false;
    for (ObjectCalls.Event event = calls.poll(); event != null; event = calls.poll()) {
      any = true;
      tries.on(event);
    }
    for (Transfer next = queues.poll(); next != null; next = queues.poll()) {
      any = true;
      tries.take(next);
    }
    any |= tries.advance();
    tries.ringFinished();
    return any;
  }

  /**
   * Ends the calls under way. Unfinished transfers do not come back. When this returns, the
   * pipeline no longer uses any slot.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    running = false;
    calls.end();
    wake();
    try {
      if (thread != null) {
        thread.join();
      }
      calls.cancel(operations.active());
      if (workers != null) {
        workers.shutdown();
        if (!workers.awaitTermination(1, TimeUnit.MINUTES)) {
          defect.accept(new IllegalStateException("a worker of the object tier does not end"));
          return;
        }
      }
      calls.cancelLatePuts();
      arena.close();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

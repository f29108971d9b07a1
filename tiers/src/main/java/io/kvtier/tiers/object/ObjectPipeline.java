package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.QueuedPipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TransferQueues;
import io.kvtier.tiers.transfer.TroubleLog;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores blocks into an {@link ObjectStore} and loads them from it. One thread decides, and never
 * waits for the store; calls are the store's, codecs some workers'.
 *
 * <p>Loads go before stores: while one waits for its turn, no more than one store is under way
 * anew. Each way has its own bounds: calls under way, by what the store is seen to bear; bytes a
 * second; second tries, by a budget; and a breaker, which makes loads misses and fails stores at
 * once while the store is down. Every transfer ends by its deadline, its time in the queue
 * included.
 *
 * <p>Outcomes of a load: OK, with checksum, generation, parent and depth as the object tells them;
 * MISS where there is no object, or one that no key here opens, or the breaker is open; DEADLINE;
 * CORRUPT; VERSION_MISMATCH; DENIED; IO_ERROR. Of a store: OK, also where the object was there
 * already; CORRUPT where the slot no longer holds what was accepted; DEADLINE; DENIED, also where
 * there is an object that a load could not read and others may; IO_ERROR.
 */
public final class ObjectPipeline extends QueuedPipeline {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectPipeline.class);
  private static final int ONLY_WORKER = 0;
  private static final int LOAD_LEVELS = 3;
  private static final int HEDGES_MAX = 8;

  /** A block of so many bytes is sealed, and its put begun, within some tens of microseconds. */
  private static final int QUICK_BYTES = 64 << 10;

  /** Names whose objects are to be replaced by the next store; more of them than that wait. */
  private static final int DAMAGED_MAX = 1024;

  private static final long NEVER_NS = Long.MAX_VALUE;

  /** What is learnt elsewhere than on the pipeline's thread. */
  private sealed interface Event {
    ObjectOperation operation();

    long epoch();

    record Ended(ObjectOperation operation, long epoch, StoreCall call, StoreResult result)
        implements Event {}

    /** With the put that a worker began, if it did. */
    record Worked(ObjectOperation operation, long epoch, Outcome outcome) implements Event {}
  }

  private final ObjectStore store;
  private final ObjectPipelineOptions options;
  private final BlockCodec codec;
  private final @Nullable ObjectCipher cipher;
  private final @Nullable PresenceCache presence;
  private final LongSupplier clock;
  private final Executor work;
  private final @Nullable ExecutorService workers;
  private final Consumer<Throwable> defect;
  private final TroubleLog troubles;
  private final TransferQueues queues;
  private final ConcurrentLinkedQueue<Event> events = new ConcurrentLinkedQueue<>();
  private final Map<ObjectCounter, LongAdder> counters = new EnumMap<>(ObjectCounter.class);
  private final Arena arena = Arena.ofShared();
  private final @Nullable Thread thread;
  private volatile boolean running = true;
  private boolean closed;

  // From here on the thread's own.
  private final ObjectLane loads;
  private final ObjectLane stores;
  private final List<ObjectOperation> active = new ArrayList<>();
  private final ArrayDeque<ObjectOperation> free = new ArrayDeque<>();
  private final ArrayDeque<MemorySegment> hedgeSlots = new ArrayDeque<>();
  private int hedgeSlotsMade;
  private final Set<String> damaged = new LinkedHashSet<>();
  private final OthersObjects others = new OthersObjects();
  private final SplittableRandom random;
  private long dueNs;
  private boolean finishedAny;

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
   * @param cipher encrypts what is stored; null for nobody
   * @param presence told of what is there and what is not; null for nobody
   * @param finishedBell wakes the collecting thread
   * @param defect told of what was thrown, which nothing should: transfers will not come back
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
        store,
        options,
        cipher,
        presence,
        finishedBell,
        defect,
        System::nanoTime,
        Executors.newFixedThreadPool(
            options.workers(), Thread.ofPlatform().daemon().name(name + "-worker-", 0).factory()),
        name);
  }

  /** With a clock and workers of one's own, and a thread only if it has a name. */
  ObjectPipeline(
      ObjectStore store,
      ObjectPipelineOptions options,
      @Nullable ObjectCipher cipher,
      @Nullable PresenceCache presence,
      Runnable finishedBell,
      Consumer<Throwable> defect,
      LongSupplier clock,
      Executor work,
      @Nullable String threadName) {
    this.store = store;
    this.options = options;
    this.cipher = cipher;
    this.presence = presence;
    this.defect = defect;
    this.clock = clock;
    troubles = new TroubleLog(LOG, store.describe());
    this.work = work;
    workers = work instanceof ExecutorService service ? service : null;
    codec = BlockCodecs.create(options.codec());
    for (ObjectCounter counter : ObjectCounter.values()) {
      counters.put(counter, new LongAdder());
    }
    long now = clock.getAsLong();
    random = new SplittableRandom(now);
    loads = new ObjectLane(options, LOAD_LEVELS, options.loadBytesPerSecond(), now);
    stores = new ObjectLane(options, 1, options.storeBytesPerSecond(), now);
    dueNs = now + NEVER_NS / 2;
    for (int i = 0; i < options.depth(); i++) {
      free.add(new ObjectOperation(arena, cipher));
    }
    queues = new TransferQueues(options.depth(), 1, _ -> wake(), null, finishedBell);
    thread =
        threadName == null
            ? null
            : Thread.ofPlatform().daemon().name(threadName).unstarted(this::work);
    if (thread != null) {
      thread.start();
    }
  }

  @Override
  protected TransferQueues queues() {
    return queues;
  }

  /** How often that was so far; from any thread. */
  public long count(ObjectCounter counter) {
    return adder(counter).sum();
  }

  /** Other caps for the calls to come; 0 for none. From any thread. */
  public void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
    loads.cap.change(loadBytesPerSecond);
    stores.cap.change(storeBytesPerSecond);
    // It may sleep for as long as the caps before told it to.
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
    return loads.trouble;
  }

  /** The same of stores. */
  public String storeTrouble() {
    return stores.trouble;
  }

  private void add(ObjectCounter counter, long count) {
    adder(counter).add(count);
  }

  private LongAdder adder(ObjectCounter counter) {
    LongAdder adder = counters.get(counter);
    if (adder == null) {
      throw new IllegalStateException("nobody counts " + counter);
    }
    return adder;
  }

  private void wake() {
    LockSupport.unpark(thread);
  }

  private void work() {
    try {
      while (running) {
        step();
        queues.announceIdle(ONLY_WORKER);
        if (running && events.isEmpty() && !step()) {
          long wait = dueNs - clock.getAsLong();
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
    for (Event event = events.poll(); event != null; event = events.poll()) {
      any = true;
      if (event.operation().epoch == event.epoch()) {
        on(event);
      }
    }
    for (Transfer next = queues.poll(); next != null; next = queues.poll()) {
      any = true;
      take(next);
    }
    long now = clock.getAsLong();
    if (dueNs - now <= 0) {
      any = true;
      onTime(now);
    }
    any |= beginCalls();
    if (finishedAny) {
      finishedAny = false;
      queues.ringFinished();
    }
    return any;
  }

  private void take(Transfer transfer) {
    ObjectOperation operation = free.removeFirst();
    active.add(operation);
    boolean load = transfer.kind == Transfer.Kind.LOAD;
    operation.begin(
        transfer,
        ObjectNames.ofBlock(
            transfer.namespaceHigh,
            transfer.namespaceLow,
            transfer.key,
            transfer.keyBytes,
            transfer.group),
        clock.getAsLong(),
        load ? options.loadTimeoutNs() : options.storeTimeoutNs());
    dueBy(operation.deadlineNs);
    lane(operation).await(operation);
  }

  private ObjectLane lane(ObjectOperation operation) {
    return operation.isLoad() ? loads : stores;
  }

  private void dueBy(long timeNs) {
    if (timeNs - dueNs < 0) {
      dueNs = timeNs;
    }
  }

  /** Deadlines, rests that are over, loads to hedge; and when to look again. */
  private void onTime(long now) {
    dueNs = now + NEVER_NS / 2;
    for (ObjectOperation operation : List.copyOf(active)) {
      if (operation.deadlineNs - now <= 0) {
        expire(operation);
        continue;
      }
      dueBy(operation.deadlineNs);
      if (operation.state == ObjectOperation.State.RESTING) {
        if (operation.wakesNs - now <= 0) {
          operation.state = ObjectOperation.State.WAITING;
          lane(operation).awaitAgain(operation);
        } else {
          dueBy(operation.wakesNs);
        }
      } else if (isToHedge(operation)) {
        long hedgeNs = operation.calledNs + options.hedgeAfterNs();
        if (hedgeNs - now <= 0) {
          hedge(operation, now);
        } else {
          dueBy(hedgeNs);
        }
      }
    }
  }

  private void expire(ObjectOperation operation) {
    switch (operation.state) {
      case WAITING -> {
        lane(operation).giveUp(operation);
        finish(operation, Status.DEADLINE);
      }
      case RESTING -> finish(operation, Status.DEADLINE);
      case CALLING -> onEnded(operation, operation.call, new StoreResult.Expired());
      // Done with in a moment, by us and not by the store.
      case SEALING, OPENING, FREE -> {}
    }
  }

  private boolean beginCalls() {
    boolean any = begin(loads, false);
    boolean alsoStores = begin(stores, loads.hasWaiting());
    return any || alsoStores;
  }

  /**
   * Begins what the lane's bounds allow.
   *
   * @param last the other lane's turn comes first: one call at a time will do
   */
  private boolean begin(ObjectLane lane, boolean last) {
    boolean any = false;
    while (lane.hasWaiting()) {
      long now = clock.getAsLong();
      if (lane.breaker.state(now) == CircuitBreaker.State.CLOSED) {
        if (!lane.hasRoom() || (last && lane.underWay() > 0)) {
          return any;
        }
        long wait = lane.cap.waitNs(now);
        if (wait > 0) {
          dueBy(now + wait);
          return any;
        }
      }
      ObjectOperation operation = lane.poll();
      if (operation == null) {
        return any;
      }
      any = true;
      if (lane.breaker.admit(now)) {
        operation.trying = lane.breaker.state(now) != CircuitBreaker.State.CLOSED;
        lane.cap.take(operation.transfer().length, now);
        lane.began();
        begin(operation, now);
      } else {
        add(ObjectCounter.KEPT_AWAY, 1);
        finish(operation, operation.isLoad() ? Status.MISS : Status.IO_ERROR);
      }
    }
    return any;
  }

  private void begin(ObjectOperation operation, long now) {
    if (operation.tries++ == 0) {
      lane(operation).budget.onFirstTry();
    }
    if (operation.isLoad()) {
      if (operation.isAside()) {
        operation.block.expect(operation.aside.asSlice(0, operation.transfer().length));
      } else {
        operation.block.expect(operation.transfer());
      }
      get(operation, now);
    } else {
      operation.state = ObjectOperation.State.SEALING;
      boolean ifAbsent = !damaged.contains(operation.name);
      // The client signs all bytes where the way to the store is not encrypted.
      work(
          operation,
          codec.id() != ObjectBlock.NOT_ENCODED
              || cipher != null
              || operation.transfer().length > QUICK_BYTES,
          () -> put(operation, ifAbsent));
    }
  }

  /** Seals the block, unless an earlier try did, and begins to put it. */
  private Outcome put(ObjectOperation operation, boolean ifAbsent) {
    if (!operation.sealed) {
      Status status = operation.block.seal(operation.transfer(), codec);
      if (status != Status.OK) {
        return new Outcome(status, null);
      }
      operation.sealed = true;
    }
    long now = clock.getAsLong();
    long timeoutNs = operation.deadlineNs - now;
    if (timeoutNs <= 0) {
      return new Outcome(Status.DEADLINE, null);
    }
    operation.calledNs = now;
    return new Outcome(
        Status.OK, store.put(operation.name, operation.block.parts(), ifAbsent, timeoutNs));
  }

  /** What came of a piece of work. */
  private record Outcome(Status status, @Nullable StoreCall call) {}

  /** What takes a processor some time. The operation is its own meanwhile. */
  private interface Work {
    Outcome run();
  }

  /**
   * Has it done by a worker, if it is long: other things take less than two changes of threads.
   *
   * @param isLong encodes, decodes, encrypts, decrypts, or reads many bytes
   */
  private void work(ObjectOperation operation, boolean isLong, Work toDo) {
    if (!isLong) {
      onWorked(operation, toDo.run());
      return;
    }
    long epoch = operation.epoch;
    work.execute(() -> {
      // Once the end has begun, nobody takes an outcome any more.
      if (!running) {
        return;
      }
      try {
        events.add(new Event.Worked(operation, epoch, toDo.run()));
        wake();
      } catch (Throwable t) {
        defect.accept(t);
      }
    });
  }

  private void get(ObjectOperation operation, long now) {
    operation.state = ObjectOperation.State.CALLING;
    operation.calledNs = now;
    ObjectBlock block = operation.block;
    operation.call =
        store.get(operation.name, 0, block.parts(), block.newDigest(), operation.deadlineNs - now);
    if (options.hedgeAfterNs() > 0) {
      dueBy(now + options.hedgeAfterNs());
    }
    listen(operation, operation.call);
  }

  private void listen(ObjectOperation operation, StoreCall call) {
    add(ObjectCounter.CALLS, 1);
    long epoch = operation.epoch;
    call.whenEnded(result -> {
      events.add(new Event.Ended(operation, epoch, call, result));
      wake();
    });
  }

  private boolean isToHedge(ObjectOperation operation) {
    return options.hedgeAfterNs() > 0
        && operation.state == ObjectOperation.State.CALLING
        && operation.isLoad()
        && operation.hedgeCall == null
        && !operation.isAside()
        && !operation.trying;
  }

  private void hedge(ObjectOperation operation, long now) {
    if ((hedgeSlots.isEmpty() && hedgeSlotsMade == HEDGES_MAX) || !loads.budget.take()) {
      // Looked at again with the next thing that is due.
      return;
    }
    MemorySegment slot = hedgeSlot(operation.transfer().length);
    add(ObjectCounter.HEDGES, 1);
    operation.hedgeSlot = slot;
    operation.hedgeBlock.expect(slot.asSlice(0, operation.transfer().length));
    operation.hedgeCall =
        store.get(
            operation.name,
            0,
            operation.hedgeBlock.parts(),
            operation.hedgeBlock.newDigest(),
            operation.deadlineNs - now);
    listen(operation, operation.hedgeCall);
  }

  private void on(Event event) {
    switch (event) {
      case Event.Ended(ObjectOperation operation, long _, StoreCall call, StoreResult result) -> {
        if (operation.state == ObjectOperation.State.CALLING
            && (call == operation.call || call == operation.hedgeCall)) {
          onEnded(operation, call, result);
        }
      }
      case Event.Worked(ObjectOperation operation, long _, Outcome outcome) ->
          onWorked(operation, outcome);
    }
  }

  private void onWorked(ObjectOperation operation, Outcome outcome) {
    Status status = outcome.status();
    StoreCall call = outcome.call();
    if (call != null) {
      operation.state = ObjectOperation.State.CALLING;
      operation.call = call;
      listen(operation, call);
      return;
    }
    if (operation.state == ObjectOperation.State.SEALING) {
      leaveLane(operation);
      finish(operation, status);
      return;
    }
    if (status == Status.OK) {
      add(ObjectCounter.LOADED, 1);
      add(ObjectCounter.LOADED_BYTES, operation.transfer().length);
      others.remove(operation.name);
      tellPresent(operation);
      finish(operation, Status.OK);
    } else if (status == Status.CORRUPT && !operation.isAside()) {
      lookAside(operation);
    } else if (status == Status.CORRUPT) {
      add(ObjectCounter.CORRUPT, 1);
      // It may have happened on the way.
      if (!again(operation, 0)) {
        damaged(operation);
        finish(operation, Status.CORRUPT);
      }
    } else {
      leaveToOthers(operation, status);
    }
  }

  /**
   * What failed in a slab says nothing of the object: a client may have written there meanwhile. It
   * is read once more, at once, into memory that nobody else can write.
   */
  private void lookAside(ObjectOperation operation) {
    if (hedgeSlots.isEmpty() && hedgeSlotsMade == HEDGES_MAX) {
      finish(operation, Status.IO_ERROR);
      return;
    }
    operation.aside = hedgeSlot(operation.transfer().length);
    operation.tries--;
    operation.state = ObjectOperation.State.WAITING;
    lane(operation).awaitAgain(operation);
  }

  /** Nothing is wrong with the object, only with our eyes: it is not to be replaced. */
  private void leaveToOthers(ObjectOperation operation, Status status) {
    ObjectHeader header = operation.block.header();
    long now = clock.getAsLong();
    damaged.remove(operation.name);
    tellAbsent(operation);
    if (status != Status.DENIED) {
      others.add(
          operation.name,
          "is of another version of the format",
          "Nodes that share a store should be of one version.",
          now);
      finish(operation, status);
      return;
    }
    if (header.isEncrypted()) {
      add(ObjectCounter.OTHER_KEY, 1);
      others.add(
          operation.name,
          "is encrypted with key "
              + CipherKey.text(header.keyId())
              + ", and this node has "
              + ObjectCipher.describe(cipher),
          "Configure that key to read with, or delete what was written with it.",
          now);
    } else {
      add(ObjectCounter.NOT_ENCRYPTED, 1);
      others.add(
          operation.name,
          "is not encrypted, and this node has " + ObjectCipher.describe(cipher),
          "Allow such objects while they are being replaced, or delete them.",
          now);
    }
    finish(operation, Status.MISS);
  }

  /** The next store of the block replaces the object, whose name would keep it out otherwise. */
  private void damaged(ObjectOperation operation) {
    if (damaged.size() < DAMAGED_MAX) {
      damaged.add(operation.name);
    }
    tellAbsent(operation);
  }

  private void onEnded(ObjectOperation operation, @Nullable StoreCall call, StoreResult result) {
    long now = clock.getAsLong();
    if (!isAnswer(result) && operation.deadlineNs - now > 0) {
      // The other of the two may still bring it.
      if (call == operation.call && operation.hedgeCall != null) {
        operation.call = null;
        return;
      }
      if (call == operation.hedgeCall && operation.call != null) {
        operation.hedgeCall = null;
        returnHedgeSlot(operation);
        return;
      }
    }
    if (result instanceof StoreResult.Done && call == operation.hedgeCall && call != null) {
      cancel(operation.call);
      operation.takeHedge();
      add(ObjectCounter.HEDGES_WON, 1);
    } else {
      cancel(operation.call);
      cancel(operation.hedgeCall);
    }
    int underWay = lane(operation).underWay();
    endCall(operation);
    switch (result) {
      case StoreResult.Done(long bytes) -> {
        answered(operation);
        lane(operation).limit.onDone(now - operation.calledNs, bytes, underWay, now);
        onDone(operation, bytes);
      }
      case StoreResult.Absent _ -> onAbsent(operation, now);
      case StoreResult.Present _ -> onPresent(operation, now);
      case StoreResult.Corrupt _ -> {
        answered(operation);
        add(ObjectCounter.CORRUPT, 1);
        againOr(operation, 0, Status.CORRUPT);
      }
      case StoreResult.Denied _ -> {
        troubles.tell(
            operation.isLoad() ? "a block can't be loaded" : "a block can't be stored",
            result.words());
        failed(operation, result.words(), now);
        add(ObjectCounter.DENIED, 1);
        finish(operation, Status.DENIED);
      }
      case StoreResult.Throttled(long retryAfterNs) -> {
        failed(operation, result.words(), now);
        lane(operation).limit.onRefused(now);
        add(ObjectCounter.THROTTLED, 1);
        againOr(operation, retryAfterNs, Status.IO_ERROR);
      }
      case StoreResult.Unavailable _ -> {
        failed(operation, result.words(), now);
        add(ObjectCounter.UNAVAILABLE, 1);
        againOr(operation, 0, Status.IO_ERROR);
      }
      case StoreResult.Expired _, StoreResult.Cancelled _ -> {
        failed(operation, result.words(), now);
        lane(operation).limit.onRefused(now);
        add(ObjectCounter.EXPIRED, 1);
        finish(operation, Status.DEADLINE);
      }
      case StoreResult.Page _ ->
          throw new IllegalStateException(store.describe() + " answered a get or put with a list");
    }
  }

  /** The breaker learns of it; who runs the daemon hears once of a store that is down, and why. */
  private void failed(ObjectOperation operation, String cause, long now) {
    ObjectLane lane = lane(operation);
    boolean wasOpen = lane.breaker.isOpen();
    lane.breaker.onFailure(now);
    if (lane.breaker.isOpen()) {
      lane.trouble = cause;
      if (!wasOpen) {
        LOG.warn(
            operation.isLoad()
                ? "{} does not answer: {}. Until it answers, blocks that are only there are misses"
                : "{} takes no blocks: {}. Until it takes blocks, those that no other tier has space"
                    + " for are dropped",
            store.describe(),
            cause);
      }
    }
  }

  private void answered(ObjectOperation operation) {
    ObjectLane lane = lane(operation);
    boolean wasOpen = lane.breaker.isOpen();
    lane.breaker.onAnswer();
    if (wasOpen) {
      lane.trouble = "";
      LOG.info(operation.isLoad() ? "{} answers again" : "{} takes blocks again", store.describe());
    }
  }

  private static boolean isAnswer(StoreResult result) {
    return result instanceof StoreResult.Done || result instanceof StoreResult.Absent;
  }

  private void onDone(ObjectOperation operation, long bytes) {
    if (operation.isLoad()) {
      operation.state = ObjectOperation.State.OPENING;
      work(
          operation,
          operation.block.takesTime(bytes),
          () -> new Outcome(operation.open(bytes), null));
    } else {
      damaged.remove(operation.name);
      others.remove(operation.name);
      add(ObjectCounter.STORED, 1);
      add(ObjectCounter.STORED_BYTES, bytes);
      tellPresent(operation);
      finish(operation, Status.OK);
    }
  }

  private void onPresent(ObjectOperation operation, long now) {
    if (operation.isLoad()) {
      // Whoever answers so is no store of objects: a load asks for nothing that it could be.
      failed(operation, "it answers a get as if it were a put", now);
      add(ObjectCounter.UNAVAILABLE, 1);
      finish(operation, Status.IO_ERROR);
    } else if (others.contains(operation.name)) {
      // To say it is stored would have it dropped elsewhere, and nobody here could read it.
      answered(operation);
      add(ObjectCounter.LEFT_TO_OTHERS, 1);
      finish(operation, Status.DENIED);
    } else {
      answered(operation);
      add(ObjectCounter.PRESENT, 1);
      tellPresent(operation);
      finish(operation, Status.OK);
    }
  }

  private void onAbsent(ObjectOperation operation, long now) {
    if (operation.isLoad()) {
      answered(operation);
      add(ObjectCounter.ABSENT, 1);
      others.remove(operation.name);
      tellAbsent(operation);
      finish(operation, Status.MISS);
    } else {
      String why = "it answers a put by saying that there is no such object";
      troubles.tell("a block can't be stored", why);
      failed(operation, why, now);
      add(ObjectCounter.UNAVAILABLE, 1);
      finish(operation, Status.IO_ERROR);
    }
  }

  private void againOr(ObjectOperation operation, long atLeastNs, Status otherwise) {
    if (!again(operation, atLeastNs)) {
      finish(operation, otherwise);
    }
  }

  /** Tries again later, if tries, budget and deadline allow it. */
  private boolean again(ObjectOperation operation, long atLeastNs) {
    long now = clock.getAsLong();
    ObjectPipelineOptions.Retry retry = options.retry();
    if (operation.tries >= retry.triesMax()
        || lane(operation).breaker.state(now) != CircuitBreaker.State.CLOSED) {
      return false;
    }
    long most = Math.min(retry.restNsMax(), retry.restNs() << Math.min(30, operation.tries - 1));
    long rest = atLeastNs + 1 + random.nextLong(Math.max(1, most));
    if (now + rest - operation.deadlineNs >= 0 || !lane(operation).budget.take()) {
      return false;
    }
    add(ObjectCounter.RETRIES, 1);
    operation.state = ObjectOperation.State.RESTING;
    operation.wakesNs = now + rest;
    dueBy(operation.wakesNs);
    return true;
  }

  private static void cancel(@Nullable StoreCall call) {
    if (call != null) {
      call.cancel();
    }
  }

  private void endCall(ObjectOperation operation) {
    operation.call = null;
    operation.hedgeCall = null;
    returnHedgeSlot(operation);
    lane(operation).ended();
  }

  private void leaveLane(ObjectOperation operation) {
    if (operation.trying) {
      lane(operation).breaker.onNothingLearnt();
    }
    lane(operation).ended();
  }

  /** Memory for the second call of a load. */
  private MemorySegment hedgeSlot(int bytes) {
    MemorySegment slot = hedgeSlots.pollFirst();
    if (slot == null) {
      hedgeSlotsMade++;
    }
    return slot != null && slot.byteSize() >= bytes
        ? slot
        : Arena.ofAuto().allocate(bytes, Long.BYTES);
  }

  private void returnHedgeSlot(ObjectOperation operation) {
    if (operation.hedgeSlot.byteSize() > 0) {
      hedgeSlots.addLast(operation.hedgeSlot);
      operation.hedgeSlot = MemorySegment.NULL;
    }
  }

  private void tellPresent(ObjectOperation operation) {
    if (presence != null) {
      presence.present(ObjectKey.of(operation.transfer()));
    }
  }

  private void tellAbsent(ObjectOperation operation) {
    if (presence != null) {
      presence.absent(ObjectKey.of(operation.transfer()));
    }
  }

  private void finish(ObjectOperation operation, Status status) {
    Transfer transfer = operation.transfer();
    transfer.status = status;
    transfer.elapsedNs = clock.getAsLong() - operation.beganNs;
    active.remove(operation);
    if (operation.isAside()) {
      hedgeSlots.addLast(operation.aside);
    }
    operation.free();
    // Used next: the fewer of them are ever used, the fewer have buffers.
    free.addFirst(operation);
    finishedAny = true;
    queues.finish(transfer);
  }

  /**
   * Ends the calls under way; what was not finished does not come back. Slots may be used otherwise
   * when this returns.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    running = false;
    wake();
    try {
      if (thread != null) {
        thread.join();
      }
      for (ObjectOperation operation : active) {
        cancel(operation.call);
        cancel(operation.hedgeCall);
      }
      if (workers != null) {
        workers.shutdown();
        if (!workers.awaitTermination(1, TimeUnit.MINUTES)) {
          defect.accept(new IllegalStateException("a worker of the object tier does not end"));
          return;
        }
      }
      // Puts that workers began when nobody took their outcome any more.
      for (Event event = events.poll(); event != null; event = events.poll()) {
        if (event instanceof Event.Worked worked) {
          cancel(worked.outcome().call());
        }
      }
      arena.close();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

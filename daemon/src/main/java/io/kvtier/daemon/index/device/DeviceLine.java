package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceTransfer;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One GPU as {@link DeviceMoves} uses it: the operations that have something to copy there, in the
 * order in which they came to have it, and the transfers that can be under way. Those that wait for
 * an event take at most half of them, and of their entries, and step out of the others' way when
 * they have that: an event may be minutes away. Confined to the index.
 */
public final class DeviceLine {
  /** So many transfers can be under way: one more than the highest number of one. */
  public static final int TRANSFERS = 512;

  /**
   * The most entries in the lists of runs of all transfers that are under way. One transfer alone
   * may have more.
   */
  public static final long ENTRIES_MAX = 1 << 18;

  /** Operations in the order in which they came: their number, and above it a count. */
  private static final class Queue {
    private final LongQueue items;
    private final boolean[] isIn;

    Queue(int operations) {
      items = new LongQueue(operations);
      isIn = new boolean[operations];
    }

    void add(int operation, int count) {
      if (!isIn[operation]) {
        isIn[operation] = true;
        if (!items.offer((long) count << Integer.SIZE | operation)) {
          throw new IllegalStateException("the line of operations was not full");
        }
      }
    }

    boolean isEmpty() {
      return items.size() == 0;
    }

    int first() {
      return (int) items.peek();
    }

    int countOfFirst() {
      return (int) (items.peek() >>> Integer.SIZE);
    }

    void removeFirst() {
      isIn[(int) items.poll()] = false;
    }
  }

  private final DevicePipeline pipeline;
  private final DeviceTransfer[] pool = new DeviceTransfer[TRANSFERS];
  private final int[] stack = new int[TRANSFERS];
  private final long[] entriesOf = new long[TRANSFERS];
  private final Consumer<DeviceTransfer> onFinished;
  private final Queue atOnce;
  private final Queue afterEvents;
  private boolean eventsHaveTheirs;
  private int came;
  private int free;
  private int events;
  private long entries;
  private long eventEntries;

  /**
   * Nothing is under way.
   *
   * @param operations the most there are
   * @param settle takes what has come back, when its place is free again
   */
  DeviceLine(DevicePipeline pipeline, int operations, Consumer<DeviceTransfer> settle) {
    this.pipeline = pipeline;
    atOnce = new Queue(operations);
    afterEvents = new Queue(operations);
    onFinished =
        transfer -> {
          giveBack(transfer);
          settle.accept(transfer);
        };
    for (int i = TRANSFERS - 1; i >= 0; i--) {
      pool[i] = new DeviceTransfer(i);
      stack[free++] = i;
    }
  }

  boolean isOf(DevicePipeline one) {
    return pipeline == one;
  }

  // ---- operations

  /** An operation has something to copy here; it may stand in the queue already. */
  void add(Operation operation, DeviceJob job) {
    queueOf(job).add(operation.poolIndex, came++);
  }

  private Queue queueOf(DeviceJob job) {
    return job.event == 0 ? atOnce : afterEvents;
  }

  /** A round begins: those that wait for events may have room again. */
  void begin() {
    eventsHaveTheirs = false;
  }

  /** Those that wait for events have all they may have: the others' turn. */
  void leaveEventsOut() {
    eventsHaveTheirs = true;
  }

  /** Where the next operation is to be taken from; null: there is none. */
  private @Nullable Queue next() {
    boolean hasEvents = !afterEvents.isEmpty() && !eventsHaveTheirs;
    if (atOnce.isEmpty()) {
      return hasEvents ? afterEvents : null;
    }
    // Counts go over the end of numbers.
    return hasEvents && afterEvents.countOfFirst() - atOnce.countOfFirst() < 0
        ? afterEvents
        : atOnce;
  }

  /** The number of the operation whose turn it is; -1: none's. */
  int first() {
    Queue queue = next();
    return queue == null ? -1 : queue.first();
  }

  /** The one whose turn it is has no more to hand over. */
  void removeFirst() {
    Queue queue = next();
    if (queue != null) {
      queue.removeFirst();
    }
  }

  /**
   * Whether the operation whose turn it is has something to copy here. It may have ended, and
   * another one have its number: that stands where it belongs.
   */
  boolean isFirst(DeviceJob job) {
    Region region = job.region;
    return region != null && region.pipeline == pipeline && queueOf(job) == next();
  }

  // ---- transfers

  /** A transfer to fill, which stays here until it is offered; null: all are under way. */
  @Nullable DeviceTransfer spare() {
    return free == 0 ? null : pool[stack[free - 1]];
  }

  /** Whether another transfer with that many entries would be too much for now. */
  boolean isFull(long more) {
    return entries > 0 && entries + more > ENTRIES_MAX;
  }

  /** Whether it would be too much of what waits for events. */
  boolean isFullOfEvents(long more) {
    return events >= TRANSFERS / 2 || (eventEntries > 0 && eventEntries + more > ENTRIES_MAX / 2);
  }

  /**
   * Hands the spare transfer over.
   *
   * @return false when there is no room: nothing was taken
   */
  boolean offer(DeviceTransfer transfer, long itsEntries) {
    if (!pipeline.offer(transfer)) {
      return false;
    }
    free--;
    entriesOf[transfer.poolIndex] = itsEntries;
    count(transfer, 1);
    return true;
  }

  private void giveBack(DeviceTransfer transfer) {
    stack[free++] = transfer.poolIndex;
    count(transfer, -1);
  }

  private void count(DeviceTransfer transfer, int by) {
    long itsEntries = by * entriesOf[transfer.poolIndex];
    entries += itsEntries;
    if (transfer.event != 0) {
      events += by;
      eventEntries += itsEntries;
    }
  }

  /** Settles what has come back; returns how many transfers that were. */
  int collect() {
    return pipeline.collect(onFinished);
  }

  /** Does something with each transfer, those in the pool among them. */
  void forEach(Consumer<DeviceTransfer> what) {
    for (DeviceTransfer transfer : pool) {
      what.accept(transfer);
    }
  }

  /** Transfers that are under way. */
  int inFlight() {
    return TRANSFERS - free;
  }

  /** Whether all that could be copied was handed over, and has come back. */
  boolean isIdle() {
    return free == TRANSFERS && atOnce.isEmpty() && afterEvents.isEmpty();
  }
}

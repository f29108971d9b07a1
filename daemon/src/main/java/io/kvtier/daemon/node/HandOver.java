package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.node.NodeTier;
import io.kvtier.tiers.node.Push;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.EnumMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Hands the blocks of host memory to other nodes, those that are worth most first. A block stays
 * where it is while it is pushed, and afterwards: the other node has a copy. One hand-over runs at
 * a time. Confined to the thread that calls {@link #doWork}, except {@link #start}, {@link #cancel}
 * and {@link #progress}.
 */
public final class HandOver {
  /** The most blocks that are kept for a push at a time. */
  private static final int AHEAD_MAX = 64;

  private static final String CANCELLED = "it was cancelled";

  /**
   * How far a hand-over is.
   *
   * @param isRunning whether it goes on
   * @param blocks all blocks that it is about; 0 until their order is known
   * @param pushed blocks that other nodes have taken
   * @param pushedBytes their bytes
   * @param present blocks that another node had already
   * @param gone blocks that left this node's memory before their turn
   * @param refused blocks that no node took, by the last reason
   * @param unkept blocks that were not kept for the hand-over, because all leases are in use here
   * @param why why it ended before all blocks had their turn; empty if it did not
   * @param isWhole whether all blocks had their turn, or all that were asked for
   */
  public record Progress(
      boolean isRunning,
      long blocks,
      long pushed,
      long pushedBytes,
      long present,
      long gone,
      Map<Status, Long> refused,
      long unkept,
      String why,
      boolean isWhole,
      long elapsedNs) {
    static final Progress NONE =
        new Progress(false, 0, 0, 0, 0, 0, Map.of(), 0, "no hand-over has begun", false, 0);
  }

  private final NodeTier tier;
  private final NodeIndex index;
  private final LongSupplier clock;
  private final Runnable wake;
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private volatile Progress progress = Progress.NONE;
  private final SureCalls sure;
  private @Nullable Session session;
  private int @Nullable [] order;
  private int next;

  /** Blocks that the index was asked to keep, blocks that it keeps, and those being pushed. */
  private int asked;

  private final ArrayDeque<NodeCall.Keeping.Kept> ready = new ArrayDeque<>();

  private int underway;
  private long bytesMax;
  private long bytesBegun;
  private long beganNs;
  private long deadlineNs;
  private boolean isFull;
  private boolean isEnding;
  private String why = "";
  private long pushed;
  private long pushedBytes;
  private long present;
  private long gone;
  private long unkept;
  private final Map<Status, Long> refused = new EnumMap<>(Status.class);

  /**
   * Nothing is handed over yet.
   *
   * @param clock in ns
   * @param wake wakes the thread of {@link #doWork}
   */
  public HandOver(NodeTier tier, NodeIndex index, LongSupplier clock, Runnable wake) {
    this.tier = tier;
    this.index = index;
    sure = new SureCalls(index);
    this.clock = clock;
    this.wake = wake;
  }

  // ---- from any thread

  /**
   * Begins, unless a hand-over is running.
   *
   * @param limitNs how long it may take
   * @param mostBytes how much may be pushed
   * @return false if one is running
   */
  public synchronized boolean start(long limitNs, long mostBytes) {
    if (progress.isRunning) {
      return false;
    }
    progress = new Progress(true, 0, 0, 0, 0, 0, Map.of(), 0, "", false, 0);
    later(() -> begin(limitNs, mostBytes));
    return true;
  }

  /** Ends the hand-over that is running, if there is one. */
  public void cancel() {
    later(() -> stop(CANCELLED));
  }

  /** How far the last hand-over is. */
  public Progress progress() {
    return progress;
  }

  private void later(Runnable task) {
    tasks.add(task);
    wake.run();
  }

  // ---- rounds

  /** One round; returns how much was done. */
  public int doWork() {
    int work = 0;
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      task.run();
      work++;
    }
    sure.repeat();
    Session now = session;
    if (now == null) {
      return work;
    }
    if (clock.getAsLong() - deadlineNs >= 0) {
      stop("the deadline has passed");
    }
    work += keepNext(now);
    pushReady(now);
    if (isOver()) {
      end(now);
      work++;
    }
    return work;
  }

  private void begin(long limitNs, long mostBytes) {
    bytesMax = mostBytes;
    bytesBegun = 0;
    beganNs = clock.getAsLong();
    deadlineNs = beganNs + limitNs;
    next = 0;
    order = null;
    isFull = false;
    isEnding = false;
    why = "";
    pushed = 0;
    pushedBytes = 0;
    present = 0;
    gone = 0;
    unkept = 0;
    refused.clear();
    tier.openPushes();
    try {
      session =
          index.open("drain", Grant.ALL, () -> later(() -> stop("the index ended its session")));
    } catch (IOException e) {
      why = String.valueOf(e.getMessage());
      publish(false);
      return;
    }
    sure.call(session, new NodeCall.Rank(ranked -> later(() -> ranked(ranked))));
  }

  private void ranked(int[] blocks) {
    order = blocks;
    publish(true);
  }

  private void stop(String reason) {
    if (session != null && !isEnding) {
      isEnding = true;
      why = reason;
      tier.cancelPushes();
    }
  }

  /** Has the index keep the next blocks where they are. */
  private int keepNext(Session now) {
    int[] blocks = order;
    int work = 0;
    while (blocks != null
        && !isEnding
        && !isFull
        && next < blocks.length
        && asked + ready.size() + underway < AHEAD_MAX
        && index.call(now, new NodeCall.Keep(blocks[next], answer -> later(() -> kept(answer))))) {
      next++;
      asked++;
      work++;
    }
    return work;
  }

  /**
   * Pushes what the index keeps. A block that may be one too many waits for the end of others,
   * which the other nodes may have already.
   */
  private void pushReady(Session now) {
    while (!ready.isEmpty()) {
      boolean isOneTooMany = bytesBegun + ready.element().length() > bytesMax;
      isFull |= isOneTooMany && underway == 0;
      if (isEnding || isFull) {
        sure.call(now, new NodeCall.Given(ready.remove().lease(), 0, false, false));
      } else if (isOneTooMany) {
        return;
      } else {
        push(now, ready.remove());
      }
    }
  }

  private boolean isOver() {
    int[] blocks = order;
    return blocks != null
        && asked + ready.size() + underway == 0
        && sure.isEmpty()
        && (isEnding || isFull || next == blocks.length);
  }

  private void end(Session now) {
    session = null;
    sure.close(now);
    publish(false);
  }

  private void publish(boolean isRunning) {
    int[] blocks = order;
    int all = blocks == null ? 0 : blocks.length;
    progress =
        new Progress(
            isRunning,
            all,
            pushed,
            pushedBytes,
            present,
            gone,
            Map.copyOf(refused),
            unkept,
            why,
            why.isEmpty() && !isRunning,
            clock.getAsLong() - beganNs);
  }

  // ---- blocks

  private void kept(NodeCall.Keeping answer) {
    asked--;
    switch (answer) {
      case NodeCall.Keeping.Kept kept -> ready.add(kept);
      case NodeCall.Keeping.Gone _ -> gone++;
      case NodeCall.Keeping.Busy _ -> unkept++;
    }
  }

  private void push(Session now, NodeCall.Keeping.Kept kept) {
    underway++;
    bytesBegun += kept.length();
    tier.push(
        new Push(
            new Push.Name(kept.high(), kept.low(), kept.text(), kept.group(), kept.key()),
            new Push.Rank(kept.parentKey(), kept.parent(), kept.depth(), kept.importance()),
            kept.isEncoded(),
            kept.checksum(),
            index.slab(kept.slab()).asSlice(kept.offset(), kept.length()),
            push -> later(() -> over(now, kept, push))));
  }

  private void over(Session now, NodeCall.Keeping.Kept kept, Push push) {
    underway--;
    boolean isTaken = push.status() == Status.OK;
    switch (push.status()) {
      case OK -> {
        pushed++;
        pushedBytes += push.length();
      }
      case EXISTS -> present++;
      default -> refused.merge(push.status(), 1L, Long::sum);
    }
    bytesBegun -= isTaken ? 0 : push.length();
    sure.call(
        now,
        new NodeCall.Given(kept.lease(), push.length(), isTaken, push.status() == Status.CORRUPT));
    publish(true);
  }
}

package io.kvtier.tiers.node;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The turns of links that share a thread. The next turn is that of the link that has used the least
 * time, so that a node that sends much does not delay the others. A link that was idle is ahead of
 * the others by a little time only. One that another node has just opened is behind them by as
 * much. Confined to the thread.
 */
final class LinkTurns {
  /** After this long, the thread does other work before the next turns. */
  private static final long ROUND_NS = TimeUnit.MILLISECONDS.toNanos(1);

  /** How far a link that was idle is ahead of the others, and a new one behind them. */
  private static final long AHEAD_NS = ROUND_NS;

  /** A turn counts as no longer than this. */
  private static final long USED_NS_MAX = ROUND_NS;

  /** A link that shares the thread. */
  abstract static class Member {
    private boolean isDue;
    private long usedNs;

    /** Does what there is to do, for a limited time. */
    abstract void turn();
  }

  private final LongSupplier clock;
  private final PriorityQueue<Member> due =
      new PriorityQueue<>(Comparator.comparingLong(link -> link.usedNs));

  /**
   * The most time that a link had used before its turn. It never falls: otherwise each link that
   * was idle would come ahead of the one before it.
   */
  private long leastNs;

  private @Nullable Member current;

  LinkTurns(LongSupplier clock) {
    this.clock = clock;
  }

  /** Takes in a link that another node has opened. */
  void admit(Member link) {
    link.usedNs = leastNs + AHEAD_NS;
  }

  /** A link has something to do. */
  void add(Member link) {
    if (!link.isDue) {
      link.isDue = true;
      if (!link.equals(current)) {
        enqueue(link);
      }
    }
  }

  private void enqueue(Member link) {
    link.usedNs = Math.max(link.usedNs, leastNs - AHEAD_NS);
    due.add(link);
  }

  void remove(Member link) {
    link.isDue = false;
    due.remove(link);
  }

  boolean isEmpty() {
    return due.isEmpty();
  }

  /** Gives links their turns, for a limited time; returns how many turns there were. */
  int serve() {
    int count = 0;
    long beforeNs = clock.getAsLong();
    long endNs = beforeNs + ROUND_NS;
    for (Member link = due.poll(); link != null; link = due.poll()) {
      leastNs = Math.max(leastNs, link.usedNs);
      link.isDue = false;
      current = link;
      link.turn();
      count++;
      current = null;
      long nowNs = clock.getAsLong();
      // The thread may have stood still meanwhile.
      link.usedNs += Math.min(nowNs - beforeNs, USED_NS_MAX);
      beforeNs = nowNs;
      if (link.isDue) {
        enqueue(link);
      }
      if (nowNs - endNs >= 0) {
        break;
      }
    }
    return count;
  }
}

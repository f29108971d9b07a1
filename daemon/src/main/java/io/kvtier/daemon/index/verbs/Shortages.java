package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.move.Promotions;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import java.util.function.IntConsumer;

/**
 * Ends waits for host slots that only clients could free. A request for more than memory can hold,
 * or for slots that other clients hold, is answered within a moment: with what fits, and BUSY for
 * the rest. Confined to the index.
 *
 * <p>The answer is a leading run of blocks: a request that has blocks behind a waiting one gives
 * them back, the last ones first, and goes on with their slots. So no two requests wait for each
 * other's leases, and a long prefix of which memory has only the end is loaded from its beginning.
 */
public final class Shortages {
  private final Directory directory;
  private final BlockStore store;
  private final HoldTable holds;
  private final WaiterTable waiters;
  private final Operations operations;
  private final Counters counters;
  private final long standstillNs;
  private final IntConsumer mark = this::mark;
  private long nowNs;

  Shortages(IndexCore core, SessionParts parts, BlockStore store) {
    directory = core.directory();
    counters = core.counters();
    standstillNs = core.limits().times().standstillNs();
    holds = parts.holds();
    waiters = parts.waiters();
    operations = parts.operations();
    this.store = store;
  }

  /** Looks for size classes in which nothing moves; called every few milliseconds. */
  public void check(long timeNs) {
    Promotions promotions = store.promotions();
    int classes = promotions.size() == 0 ? 0 : store.first().slots().classes();
    for (int sizeClass = 0; sizeClass < classes; sizeClass++) {
      if (promotions.isStanding(sizeClass, timeNs)) {
        nowNs = timeNs;
        promotions.forEach(sizeClass, mark);
        endMarked();
        promotions.dropUnawaited(sizeClass);
      }
    }
  }

  /** Marks the requests that have waited for a block for long enough. */
  private void mark(int block) {
    for (int waiter = waiters.first(block);
        waiter != WaiterTable.NONE;
        waiter = waiters.next(waiter, block)) {
      Operation operation = operations.at(waiters.operation(waiter));
      if (nowNs - operation.beganNs >= standstillNs) {
        waiters.mark(waiter);
      }
    }
  }

  private void endMarked() {
    for (int i = 0; i < operations.max() && waiters.marked() > 0; i++) {
      Operation operation = operations.at(i);
      if (operation.active && (operation.verb == Verb.ACQUIRE || operation.verb == Verb.ONBOARD)) {
        endMarked(operation);
      }
    }
  }

  /** Goes through an operation's places from both ends. */
  private void endMarked(Operation operation) {
    int ended = 0;
    int last = operation.count;
    for (int place = 0; place < operation.count && waiters.marked() > 0; place++) {
      if (!waiters.unmark(operation, place)) {
        continue;
      }
      last = lastToGiveBack(operation, place, last);
      if (last > place) {
        giveBack(operation, last);
      } else {
        boolean isRemoved = waiters.remove(operation, place);
        ended += isRemoved ? 1 : 0;
        Operations.decide(operation, place, Status.BUSY, TierId.of(operation.tier[place]));
      }
    }
    counters.add(Counter.ACQUIRE_BUSY, ended);
    if (ended > 0) {
      operation.open -= ended - 1;
      operations.closePlace(operation);
    }
  }

  /** The last place behind one, and before another, whose slot comes free with its lease. */
  private int lastToGiveBack(Operation operation, int behind, int before) {
    int place = before - 1;
    while (place > behind && !isFreedByItsEnd(operation, place)) {
      place--;
    }
    return place;
  }

  private boolean isFreedByItsEnd(Operation operation, int place) {
    if (operation.hold[place] == HoldTable.NONE) {
      return false;
    }
    Session session = operations.sessionOf(operation);
    int block = operation.block[place];
    return holds.find(operation.holdId[place], HoldTable.LEASE, session) != HoldTable.NONE
        && directory.holds(block) == 1
        && directory.uses(block) == 0;
  }

  private void giveBack(Operation operation, int place) {
    int block = operation.block[place];
    holds.free(operation.hold[place], operations.sessionOf(operation));
    operation.hold[place] = HoldTable.NONE;
    Operations.decide(operation, place, Status.BUSY, TierId.of(operation.tier[place]));
    counters.add(Counter.ACQUIRE_BUSY, 1);
    store.release(block);
  }
}

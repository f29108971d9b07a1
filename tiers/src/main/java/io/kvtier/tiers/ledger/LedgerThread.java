package io.kvtier.tiers.ledger;

import io.kvtier.tiers.transfer.Inbox;
import io.kvtier.tiers.transfer.Joining;
import io.kvtier.tiers.transfer.LastLeg;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The thread on which a device's ledger is written: takes whatever has come meanwhile as one group.
 * A ledger that stalls holds up nobody's reads.
 */
public final class LedgerThread implements LastLeg, AutoCloseable {
  private static final int GROUP_MAX = 256;

  private final LedgerLeg leg;
  private final Consumer<Throwable> defect;
  private final Inbox<Transfer> inbox;
  private final Thread thread;
  private Consumer<Transfer> done = transfer -> {};
  private Runnable afterGroup = () -> {};

  /**
   * A thread that is yet to be started.
   *
   * @param capacity the most transfers that can be on their way
   */
  public LedgerThread(String name, LedgerLeg leg, int capacity, Consumer<Throwable> defect) {
    this.leg = leg;
    this.defect = defect;
    inbox = new Inbox<>(capacity);
    thread = Thread.ofPlatform().daemon().name(name).unstarted(this::work);
  }

  @Override
  public int capacity() {
    return inbox.capacity();
  }

  @Override
  public void start(Consumer<Transfer> whenDone, Runnable afterSome) {
    done = whenDone;
    afterGroup = afterSome;
    thread.start();
  }

  @Override
  public boolean offer(Transfer transfer) {
    return inbox.offer(transfer);
  }

  private void work() {
    try {
      List<Transfer> group = new ArrayList<>(GROUP_MAX);
      while (true) {
        for (Transfer next = inbox.poll(); next != null; next = inbox.poll()) {
          group.add(next);
          if (group.size() == GROUP_MAX) {
            break;
          }
        }
        if (group.isEmpty()) {
          if (inbox.hasEnded() && inbox.isEmpty()) {
            return;
          }
          boolean _ = inbox.await(Long.MAX_VALUE);
          continue;
        }
        leg.run(group, done);
        afterGroup.run();
        group.clear();
      }
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  /** Enters what is on its way, and ends. */
  @Override
  public void close() {
    inbox.end();
    Joining.join(thread);
  }
}

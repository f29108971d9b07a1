package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.lane.RowMarks;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.source.ObjectRemovals;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * Lets DELETE and CLEAR wait until their blocks are removed for good: from the ledgers that a later
 * start of the daemon reads, and from the object tier.
 */
public final class Removals {
  private record Waiting(Operation operation, BooleanSupplier isOver) {}

  private final BlockStore store;
  private final Operations operations;
  private final List<Waiting> waiting = new ArrayList<>();

  public Removals(BlockStore store, Operations operations) {
    this.store = store;
    this.operations = operations;
  }

  /** Keeps an operation open until all deletions so far are final. */
  void await(Operation operation) {
    RowMarks rows = store.rowMarks();
    BooleanSupplier objects = store.objects().removals().untilGone();
    await(operation, () -> rows.areReached() && objects.getAsBoolean());
  }

  /** As {@link #await(Operation)}, until the objects of a namespace are gone, too. */
  void await(Operation operation, ObjectRemovals.Clearing clearing) {
    RowMarks rows = store.rowMarks();
    await(operation, () -> rows.areReached() && clearing.isDone());
  }

  private void await(Operation operation, BooleanSupplier isOver) {
    if (!isOver.getAsBoolean()) {
      operation.open++;
      waiting.add(new Waiting(operation, isOver));
    }
  }

  /** Ends the waits that are over. */
  public void advance() {
    for (Iterator<Waiting> each = waiting.iterator(); each.hasNext(); ) {
      Waiting one = each.next();
      if (one.isOver.getAsBoolean()) {
        each.remove();
        operations.closePlace(one.operation);
      }
    }
  }

  /** An operation ends before its time. */
  void cutShort(Operation operation) {
    waiting.removeIf(one -> one.operation == operation);
  }
}

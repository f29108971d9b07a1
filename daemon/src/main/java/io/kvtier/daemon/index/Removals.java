package io.kvtier.daemon.index;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * DELETE and CLEAR that wait until what they removed is removed for good: from the directories that
 * a later start of the daemon reads, and from the object tier.
 */
final class Removals {
  private record Waiting(Operation operation, BooleanSupplier isOver) {}

  private final BlockStore store;
  private final Operations operations;
  private final List<Waiting> waiting = new ArrayList<>();

  Removals(BlockStore store, Operations operations) {
    this.store = store;
    this.operations = operations;
  }

  /** Keeps an operation open until everything that has gone so far has gone for good. */
  void await(Operation operation) {
    RowMarks rows = store.rowMarks();
    BooleanSupplier objects = store.objects().removals();
    await(operation, () -> rows.areReached() && objects.getAsBoolean());
  }

  /** The same, until a namespace's objects have gone, too. */
  void await(Operation operation, ObjectLine.Clearing clearing) {
    RowMarks rows = store.rowMarks();
    await(operation, () -> rows.areReached() && clearing.isDone());
  }

  private void await(Operation operation, BooleanSupplier isOver) {
    if (!isOver.getAsBoolean()) {
      operation.open++;
      waiting.add(new Waiting(operation, isOver));
    }
  }

  /** Ends what need not wait any more. */
  void advance() {
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

package io.kvtier.daemon.index;

import java.util.ArrayList;
import java.util.List;

/**
 * DELETE and CLEAR that wait until what they removed is removed for good: from the directories that
 * a later start of the daemon reads.
 */
final class Removals {
  private record Waiting(Operation operation, RowMarks marks) {}

  private final BlockStore store;
  private final Operations operations;
  private final List<Waiting> waiting = new ArrayList<>();

  Removals(BlockStore store, Operations operations) {
    this.store = store;
    this.operations = operations;
  }

  /** Keeps an operation open until everything that has gone so far has gone for good. */
  void await(Operation operation) {
    RowMarks marks = store.rowMarks();
    if (!marks.areReached()) {
      operation.open++;
      waiting.add(new Waiting(operation, marks));
    }
  }

  /** Ends what need not wait any more. */
  void advance() {
    while (!waiting.isEmpty() && waiting.getFirst().marks.areReached()) {
      operations.closePlace(waiting.removeFirst().operation);
    }
  }

  /** An operation ends before its time. */
  void cutShort(Operation operation) {
    waiting.removeIf(one -> one.operation == operation);
  }
}

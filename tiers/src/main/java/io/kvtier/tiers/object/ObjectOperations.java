package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Buffers;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The operations of a pipeline, one for each transfer that can be under way. For one thread. */
final class ObjectOperations {
  private final List<ObjectOperation> active = new ArrayList<>();
  private final ArrayDeque<ObjectOperation> free = new ArrayDeque<>();

  /**
   * Makes all operations.
   *
   * @param arena of their headers
   */
  ObjectOperations(int depth, Arena arena, @Nullable ObjectCipher cipher) {
    Buffers buffers = new Buffers();
    for (int i = 0; i < depth; i++) {
      free.add(new ObjectOperation(arena, cipher, buffers));
    }
  }

  /** Takes a free operation. */
  ObjectOperation take() {
    ObjectOperation operation = free.removeFirst();
    active.add(operation);
    return operation;
  }

  /** Gives an operation back after the end of its transfer. */
  void giveBack(ObjectOperation operation) {
    active.remove(operation);
    operation.free();
    // The operation is taken next: operations that were never used have no buffers for puts.
    free.addFirst(operation);
  }

  /** The operations that are taken. */
  List<ObjectOperation> active() {
    return active;
  }
}

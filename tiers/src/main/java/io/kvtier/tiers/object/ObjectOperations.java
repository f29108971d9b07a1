package io.kvtier.tiers.object;

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
   * Makes all operations, with nothing to do.
   *
   * @param arena of their headers
   */
  ObjectOperations(int depth, Arena arena, @Nullable ObjectCipher cipher) {
    for (int i = 0; i < depth; i++) {
      free.add(new ObjectOperation(arena, cipher));
    }
  }

  /** Takes a free operation. */
  ObjectOperation take() {
    ObjectOperation operation = free.removeFirst();
    active.add(operation);
    return operation;
  }

  /** Gives an operation back whose transfer has ended. */
  void giveBack(ObjectOperation operation) {
    active.remove(operation);
    operation.free();
    // Taken next: the fewer operations are ever used, the fewer have buffers.
    free.addFirst(operation);
  }

  /** The operations that are taken. */
  List<ObjectOperation> active() {
    return active;
  }
}

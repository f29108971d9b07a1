package io.kvtier.daemon.index.session;

import io.kvtier.protocol.RequestDescriptor;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/** The operations, a fixed number of objects that are used again. Confined to the index. */
public final class OperationPool {
  private final Operation[] pool;
  private final int[] stack;
  private int free;

  public OperationPool(int operationsMax) {
    pool = new Operation[operationsMax];
    stack = new int[operationsMax];
    for (int i = operationsMax - 1; i >= 0; i--) {
      pool[i] = new Operation(i);
      stack[free++] = i;
    }
  }

  /** Takes an operation; null when all are in use. */
  @Nullable Operation take() {
    return free == 0 ? null : pool[stack[--free]];
  }

  /** Gives an operation back. */
  void give(Operation operation) {
    stack[free++] = operation.poolIndex;
  }

  /** The operation with a number, whether or not it is in use. */
  public Operation at(int poolIndex) {
    return pool[poolIndex];
  }

  /** How many operations there are, in use or not. */
  int max() {
    return pool.length;
  }

  /** How many operations are in use. */
  int active() {
    return pool.length - free;
  }

  /** Operations whose session has ended: they only wait for their copies. */
  public int departed() {
    int count = 0;
    for (Operation operation : pool) {
      count += operation.active && operation.departed != null ? 1 : 0;
    }
    return count;
  }

  /** Adds the namespaces of the operations in use to a set. */
  public void noteInUse(BitSet ids) {
    for (Operation operation : pool) {
      if (operation.active && operation.namespaceId != RequestDescriptor.NAMESPACE_ALL) {
        ids.set(operation.namespaceId);
      }
    }
  }
}

package io.kvtier.daemon.index.core;

import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Items that wait for a slot, by size class and priority: first come, first served within each. A
 * class without room does not delay the items of another class.
 */
public final class ClassQueues {
  /** Tries to serve what waits. */
  @FunctionalInterface
  public interface Server {
    /** Serves an item, or says that its class has no room now. */
    boolean serve(long item);
  }

  private final int priorities;
  private final int capacity;
  private final @Nullable LongQueue[] queues;
  private final int[] waiting;
  private int size;

  /**
   * Empty queues.
   *
   * @param classesMax how many size classes there can be
   * @param capacity the most items in all of them together
   */
  public ClassQueues(int classesMax, int priorities, int capacity) {
    waiting = new int[classesMax];
    this.priorities = priorities;
    this.capacity = capacity;
    this.queues = new LongQueue[classesMax * priorities];
  }

  /** Adds an item; false when the queues are full. */
  public boolean offer(int sizeClass, int priority, long item) {
    if (size == capacity) {
      return false;
    }
    int at = sizeClass * priorities + priority;
    LongQueue queue = queues[at];
    if (queue == null) {
      queues[at] = queue = new LongQueue(capacity);
    }
    size++;
    waiting[sizeClass]++;
    return queue.offer(item);
  }

  public int size() {
    return size;
  }

  public boolean isFull() {
    return size == capacity;
  }

  /** How many wait for a size class. */
  public int waiting(int sizeClass) {
    return waiting[sizeClass];
  }

  /** Serves every class from its most urgent item on, until one can't be served. */
  public void serve(int classes, Server server) {
    for (int sizeClass = 0; sizeClass < classes; sizeClass++) {
      boolean hasRoom = waiting[sizeClass] > 0;
      for (int priority = 0; priority < priorities && hasRoom; priority++) {
        LongQueue queue = queues[sizeClass * priorities + priority];
        while (queue != null && queue.size() > 0 && hasRoom) {
          hasRoom = server.serve(queue.peek());
          if (hasRoom) {
            queue.poll();
            size--;
            waiting[sizeClass]--;
          }
        }
      }
    }
  }

  /** The items of a class, in the order in which they are served. */
  public void forEach(int sizeClass, LongConsumer visitor) {
    for (int priority = 0; priority < priorities; priority++) {
      LongQueue queue = queues[sizeClass * priorities + priority];
      for (int i = 0; queue != null && i < queue.size(); i++) {
        visitor.accept(queue.at(i));
      }
    }
  }

  /** Takes the items of a class away for which the server says so; the others keep their order. */
  public void removeIf(int sizeClass, Server gone) {
    for (int priority = 0; priority < priorities; priority++) {
      LongQueue queue = queues[sizeClass * priorities + priority];
      for (int rest = queue == null ? 0 : queue.size(); queue != null && rest > 0; rest--) {
        long item = queue.poll();
        if (gone.serve(item)) {
          size--;
          waiting[sizeClass]--;
        } else {
          queue.offer(item);
        }
      }
    }
  }
}

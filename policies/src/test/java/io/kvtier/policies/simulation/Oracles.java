package io.kvtier.policies.simulation;

import static java.util.Objects.requireNonNull;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The published algorithms, written from their papers in the plainest way and knowing nothing of
 * the policies: what the simulator is held against.
 */
final class Oracles {
  /** Hits of blocks, and of blocks in leading runs. */
  record Hits(long blocks, long prefixes) {}

  /** A cache that is asked for every reference. */
  interface Cache {
    boolean contains(long block);

    void use(long block);
  }

  private Oracles() {}

  static Hits replay(List<long[]> requests, boolean tailFirst, Cache cache) {
    long blocks = 0;
    long prefixes = 0;
    for (long[] request : requests) {
      for (long block : request) {
        if (!cache.contains(block)) {
          break;
        }
        prefixes++;
      }
      for (long block : touches(request, tailFirst)) {
        if (cache.contains(block)) {
          blocks++;
        }
        cache.use(block);
      }
    }
    return new Hits(blocks, prefixes);
  }

  private static List<Long> touches(long[] request, boolean tailFirst) {
    List<Long> touches = new ArrayList<>();
    for (long block : request) {
      touches.add(block);
    }
    if (tailFirst) {
      Collections.reverse(touches);
    }
    return touches;
  }

  static Cache infinite() {
    Set<Long> resident = new HashSet<>();
    return new Cache() {
      @Override
      public boolean contains(long block) {
        return resident.contains(block);
      }

      @Override
      public void use(long block) {
        resident.add(block);
      }
    };
  }

  static Cache lru(int capacity) {
    LinkedHashSet<Long> byUse = new LinkedHashSet<>();
    return new Cache() {
      @Override
      public boolean contains(long block) {
        return byUse.contains(block);
      }

      @Override
      public void use(long block) {
        if (!byUse.remove(block) && byUse.size() == capacity) {
          byUse.removeFirst();
        }
        byUse.addLast(block);
      }
    };
  }

  static Cache fifo(int capacity) {
    LinkedHashSet<Long> byArrival = new LinkedHashSet<>();
    return new Cache() {
      @Override
      public boolean contains(long block) {
        return byArrival.contains(block);
      }

      @Override
      public void use(long block) {
        if (!byArrival.contains(block)) {
          if (byArrival.size() == capacity) {
            byArrival.removeFirst();
          }
          byArrival.addLast(block);
        }
      }
    };
  }

  /** Belady's MIN: every reference's next use is looked up, the farthest goes. */
  static Cache optimum(List<long[]> requests, boolean tailFirst, int capacity) {
    Map<Long, ArrayDeque<Long>> uses = new HashMap<>();
    long time = 0;
    for (long[] request : requests) {
      for (long block : touches(request, tailFirst)) {
        uses.computeIfAbsent(block, b -> new ArrayDeque<>()).addLast(time++);
      }
    }
    Map<Long, Long> nextUseOf = new HashMap<>();
    TreeMap<Long, Long> byNextUse = new TreeMap<>();
    return new Cache() {
      private long never = Long.MAX_VALUE;

      @Override
      public boolean contains(long block) {
        return nextUseOf.containsKey(block);
      }

      @Override
      public void use(long block) {
        Long known = nextUseOf.remove(block);
        if (known != null) {
          byNextUse.remove(known);
        } else if (nextUseOf.size() == capacity) {
          nextUseOf.remove(byNextUse.pollLastEntry().getValue());
        }
        ArrayDeque<Long> times = requireNonNull(uses.get(block));
        times.removeFirst();
        // Those never used again need times of their own.
        long next = times.isEmpty() ? never-- : times.getFirst();
        nextUseOf.put(block, next);
        byNextUse.put(next, block);
      }
    };
  }

  /** SOSP 2023, Algorithm 1, line by line. */
  static final class S3Fifo implements Cache {
    private final int capacity;
    private final int small;
    private final ArrayDeque<Long> smallQueue = new ArrayDeque<>();
    private final ArrayDeque<Long> mainQueue = new ArrayDeque<>();
    private final LinkedHashSet<Long> ghosts = new LinkedHashSet<>();
    private final Map<Long, Integer> frequency = new HashMap<>();

    S3Fifo(int capacity) {
      this.capacity = capacity;
      this.small = Math.max(1, capacity / 10);
    }

    @Override
    public boolean contains(long block) {
      return frequency.containsKey(block);
    }

    @Override
    public void use(long block) {
      if (contains(block)) {
        frequency.merge(block, 1, (uses, one) -> Math.min(uses + one, 3));
        return;
      }
      while (smallQueue.size() + mainQueue.size() >= capacity) {
        if (smallQueue.size() >= small) {
          evictSmall();
        } else {
          evictMain();
        }
      }
      if (ghosts.remove(block)) {
        mainQueue.addFirst(block);
      } else {
        smallQueue.addFirst(block);
      }
      frequency.put(block, 0);
    }

    private void evictSmall() {
      boolean evicted = false;
      while (!evicted && !smallQueue.isEmpty()) {
        long tail = smallQueue.removeLast();
        if (requireNonNull(frequency.get(tail)) > 1) {
          mainQueue.addFirst(tail);
          // "And its access bits are cleared during the move."
          frequency.put(tail, 0);
          if (mainQueue.size() > capacity - small) {
            evictMain();
          }
        } else {
          ghosts.addLast(tail);
          if (ghosts.size() > capacity - small) {
            ghosts.removeFirst();
          }
          frequency.remove(tail);
          evicted = true;
        }
      }
    }

    private void evictMain() {
      boolean evicted = false;
      while (!evicted && !mainQueue.isEmpty()) {
        long tail = mainQueue.removeLast();
        if (requireNonNull(frequency.get(tail)) > 0) {
          mainQueue.addFirst(tail);
          frequency.merge(tail, -1, Integer::sum);
        } else {
          frequency.remove(tail);
          evicted = true;
        }
      }
    }
  }

  /** NSDI 2024, Algorithm 1. */
  static final class Sieve implements Cache {
    private static final class Node {
      final long block;
      boolean visited;

      /** Toward the head, where the newest is. */
      @Nullable Node prev;

      /** Toward the tail. */
      @Nullable Node next;

      Node(long block) {
        this.block = block;
      }
    }

    private final int capacity;
    private final Map<Long, Node> resident = new HashMap<>();
    private @Nullable Node head;
    private @Nullable Node tail;
    private @Nullable Node hand;

    Sieve(int capacity) {
      this.capacity = capacity;
    }

    @Override
    public boolean contains(long block) {
      return resident.containsKey(block);
    }

    @Override
    public void use(long block) {
      Node known = resident.get(block);
      if (known != null) {
        known.visited = true;
        return;
      }
      if (resident.size() == capacity) {
        evict();
      }
      Node node = new Node(block);
      node.next = head;
      if (head != null) {
        head.prev = node;
      }
      head = node;
      if (tail == null) {
        tail = node;
      }
      resident.put(block, node);
    }

    private void evict() {
      Node object = requireNonNull(hand == null ? tail : hand);
      while (object.visited) {
        object.visited = false;
        object = requireNonNull(object.prev == null ? tail : object.prev);
      }
      hand = object.prev;
      if (object.prev == null) {
        head = object.next;
      } else {
        object.prev.next = object.next;
      }
      if (object.next == null) {
        tail = object.prev;
      } else {
        object.next.prev = object.prev;
      }
      resident.remove(object.block);
    }
  }
}

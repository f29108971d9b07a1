package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.EvictionPolicy.VictimFilter;

/**
 * A small copy of a tier without its bytes: a policy over a share of the tier's blocks, which sees
 * the same share of the sequences. What it hits, the whole tier under that policy would hit, as far
 * as the sample is like the whole.
 */
final class ShadowCache {
  /** Hears of what a shadow holds. */
  interface Listener {
    void onArrival(long key);

    void onDeparture(long key);
  }

  private static final VictimFilter ANY = block -> true;
  private static final Listener NOBODY =
      new Listener() {
        @Override
        public void onArrival(long key) {}

        @Override
        public void onDeparture(long key) {}
      };

  private String specification;
  private EvictionPolicy policy;
  private final int capacity;
  private final long[] keys;
  private final long[] parents;
  private final int[] depths;
  private final FingerprintTable resident;

  /** The ids that no block has, from {@code policy.size()} on. */
  private final int[] free;

  private Listener listener = NOBODY;

  /** How many blocks it holds when it is full: fewer than it could where the tier is smaller. */
  private int places;

  /** A sequence is sampled when its name's upper bits are below this. */
  private long limit;

  private long offered;
  private long references;
  private long blockHits;
  private long prefixHits;

  ShadowCache(String specification, int capacity) {
    this.specification = specification;
    this.capacity = capacity;
    policy = EvictionPolicies.create(specification, capacity, capacity);
    keys = new long[capacity];
    parents = new long[capacity];
    depths = new int[capacity];
    resident = new FingerprintTable(keys);
    free = new int[capacity];
    for (int i = 0; i < capacity; i++) {
      free[i] = i;
    }
    places = capacity;
  }

  /** Who hears of arrivals and departures from now on, in place of another. */
  void tell(Listener next) {
    listener = next;
  }

  /** Nobody hears any more. */
  void tellNobody() {
    listener = NOBODY;
  }

  boolean holds(long key) {
    return resident.get(key) != EvictionPolicy.NONE;
  }

  /** Sets of how many blocks this is the copy. */
  void standFor(double blocks) {
    limit = (long) (Math.min(1, capacity / blocks) * (1L << 32));
    places = Math.clamp(Math.round(blocks), 1, capacity);
    while (policy.size() > places) {
      evict();
    }
  }

  /**
   * Another policy takes over, and is told of the blocks in the order in which they would leave.
   */
  void swapPolicy(String next) {
    EvictionPolicy successor = EvictionPolicies.create(next, capacity, capacity);
    policy.forEach(
        block -> successor.onInsert(block, 1, keys[block], depths[block], parents[block]));
    successor.onHandedOver();
    policy = successor;
    specification = next;
  }

  /** Replays a request of a sequence that is in the sample. */
  void offer(RequestAssembler request, long sequence) {
    offered += request.size();
    boolean isSampled =
        request.isFragment()
            ? limit == 1L << 32 || holds(request.parent(0)) || holds(request.key(0))
            : (sequence & 0xffff_ffffL) < limit;
    if (!isSampled) {
      return;
    }
    int size = request.size();
    int run = 0;
    while (run < size && holds(request.key(run))) {
      run++;
    }
    prefixHits += run;
    references += size;
    for (int i = 0; i < size; i++) {
      int place = request.isTailFirst() ? size - 1 - i : i;
      touch(request.key(place), request.headDepth() + place, request.parent(place));
    }
  }

  private void touch(long key, int depth, long parent) {
    int block = resident.get(key);
    if (block != EvictionPolicy.NONE) {
      policy.onHit(block);
      blockHits++;
      return;
    }
    if (policy.size() == places) {
      evict();
    }
    block = free[policy.size()];
    keys[block] = key;
    parents[block] = parent;
    depths[block] = depth;
    resident.put(block);
    policy.onInsert(block, 1, key, depth, parent);
    listener.onArrival(key);
  }

  private void evict() {
    int block = policy.victim(ANY, 1);
    policy.onRemove(block, Removal.EVICTED);
    free[policy.size()] = block;
    resident.remove(block);
    listener.onDeparture(keys[block]);
  }

  /** What was offered until now counts for nothing; the blocks stay. */
  void forgetCounts() {
    offered = 0;
    references = 0;
    blockHits = 0;
    prefixHits = 0;
  }

  String specification() {
    return specification;
  }

  /** The touches of the tier, in the sample or not, since the counts began. */
  long offered() {
    return offered;
  }

  long references() {
    return references;
  }

  long blockHits() {
    return blockHits;
  }

  long prefixHits() {
    return prefixHits;
  }

  long bytes() {
    return policy.metadataBytes() + 24L * keys.length + resident.bytes();
  }
}

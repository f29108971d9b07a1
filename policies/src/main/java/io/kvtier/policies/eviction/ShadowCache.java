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
  private static final VictimFilter ANY = block -> true;

  private final String specification;
  private final EvictionPolicy policy;
  private final int capacity;
  private final long[] keys;
  private final FingerprintTable resident;

  /** A sequence is sampled when its name's upper bits are below this. */
  private long limit;

  private long references;
  private long blockHits;
  private long prefixHits;

  ShadowCache(String specification, int capacity) {
    this.specification = specification;
    this.capacity = capacity;
    policy = EvictionPolicies.create(specification, capacity, capacity);
    keys = new long[capacity];
    resident = new FingerprintTable(keys);
  }

  /** Sets of how many blocks this is the copy. */
  void standFor(double blocks) {
    limit = (long) (Math.min(1, capacity / blocks) * (1L << 32));
  }

  /** Replays a request of a sequence that is in the sample. */
  void offer(RequestAssembler request, long sequence) {
    boolean isSampled =
        request.isFragment()
            ? limit == 1L << 32
                || resident.get(request.parent(0)) != EvictionPolicy.NONE
                || resident.get(request.key(0)) != EvictionPolicy.NONE
            : (sequence & 0xffff_ffffL) < limit;
    if (!isSampled) {
      return;
    }
    int size = request.size();
    int run = 0;
    while (run < size && resident.get(request.key(run)) != EvictionPolicy.NONE) {
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
    block = policy.size();
    if (block == capacity) {
      block = policy.victim(ANY, 1);
      policy.onRemove(block, Removal.EVICTED);
      resident.remove(block);
    }
    keys[block] = key;
    resident.put(block);
    policy.onInsert(block, 1, key, depth, parent);
  }

  String specification() {
    return specification;
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
    return policy.metadataBytes() + 8L * keys.length + resident.bytes();
  }
}

package io.kvtier.policies.simulation;

import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import java.util.Arrays;

/**
 * A tier of so many slots under a policy, without bytes. As in the daemon, the policy knows a block
 * by a small id that is given again when the block has left.
 */
final class PolicyCache implements Replay.Cache {
  private static final VictimFilter ANY = block -> true;
  private static final int ABSENT = -1;
  private static final int BLOCK_BYTES = 1 << 20;

  private final Trace trace;
  private final EvictionPolicy policy;
  private final int capacity;

  /** The id of a resident block of the trace. */
  private final int[] idOf;

  private final int[] blockOf;
  private int resident;
  private long evictions;

  PolicyCache(Trace trace, EvictionPolicy policy, int capacity) {
    this.trace = trace;
    this.policy = policy;
    this.capacity = capacity;
    idOf = new int[trace.distinct()];
    blockOf = new int[capacity];
    Arrays.fill(idOf, ABSENT);
  }

  @Override
  public boolean isResident(int block) {
    return idOf[block] != ABSENT;
  }

  @Override
  public boolean touch(int block) {
    int id = idOf[block];
    if (id != ABSENT) {
      policy.onHit(id);
      return true;
    }
    if (resident < capacity) {
      id = resident++;
    } else {
      id = policy.victim(ANY, 1);
      if (id == EvictionPolicy.NONE) {
        throw new IllegalStateException("no victim in a full cache");
      }
      policy.onRemove(id, Removal.EVICTED);
      idOf[blockOf[id]] = ABSENT;
      evictions++;
    }
    idOf[block] = id;
    blockOf[id] = block;
    int parent = trace.parent(block);
    policy.onInsert(
        id,
        BLOCK_BYTES,
        Trace.fingerprint(block),
        trace.depth(block),
        parent == Trace.NO_BLOCK ? EvictionPolicy.NO_PARENT : Trace.fingerprint(parent));
    return false;
  }

  @Override
  public long evictions() {
    return evictions;
  }

  @Override
  public long metadataBytes() {
    return policy.metadataBytes();
  }
}

package io.kvtier.policies.simulation;

/** The counts and the cost of a replay of a trace through one policy. */
public record Outcome(String policy, Order order, int capacityBlocks, Counts counts, Cost cost) {
  /**
   * The counts after the warm-up.
   *
   * @param references the touches that were counted
   * @param blockHits the references that found their block resident
   * @param prefixHits the leading runs of resident blocks at the start of each request, together
   */
  public record Counts(long references, long blockHits, long prefixHits, long evictions) {}

  /**
   * The cost of the replay.
   *
   * @param metadataBytes the policy's memory; 0 for the yardsticks, which are not policies
   * @param touches all replayed touches, with the warm-up
   * @param nanoseconds the time of the whole replay
   */
  public record Cost(long metadataBytes, long touches, long nanoseconds) {}

  public long references() {
    return counts.references;
  }

  public long blockHits() {
    return counts.blockHits;
  }

  public long prefixHits() {
    return counts.prefixHits;
  }

  public long evictions() {
    return counts.evictions;
  }

  public long metadataBytes() {
    return cost.metadataBytes;
  }

  public long touches() {
    return cost.touches;
  }

  public long nanoseconds() {
    return cost.nanoseconds;
  }

  /** The share of references that were hits; 0 of none. */
  public double blockHitRatio() {
    return references() == 0 ? 0 : (double) blockHits() / references();
  }

  /** The share of references in leading runs; 0 of none. */
  public double prefixHitRatio() {
    return references() == 0 ? 0 : (double) prefixHits() / references();
  }

  /** The time of one touch, with its insertion and eviction and the simulator's own part. */
  public double nsPerOperation() {
    return touches() == 0 ? 0 : (double) nanoseconds() / touches();
  }
}

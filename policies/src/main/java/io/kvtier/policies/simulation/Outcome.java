package io.kvtier.policies.simulation;

/**
 * What a replay counted.
 *
 * @param references the touches that were counted
 * @param blockHits those that found their block resident
 * @param prefixHits the leading runs of resident blocks at the start of each request, together
 * @param metadataBytes the policy's memory; 0 for the yardsticks, which are not policies
 * @param touches all that were replayed, those before the count began too
 * @param nanoseconds how long the whole replay took
 */
public record Outcome(
    String policy,
    Order order,
    int capacityBlocks,
    long references,
    long blockHits,
    long prefixHits,
    long evictions,
    long metadataBytes,
    long touches,
    long nanoseconds) {
  /** The share of references that were hits; 0 of none. */
  public double blockHitRatio() {
    return references == 0 ? 0 : (double) blockHits / references;
  }

  /** The share of references in leading runs; 0 of none. */
  public double prefixHitRatio() {
    return references == 0 ? 0 : (double) prefixHits / references;
  }

  /** The time of one touch, with its insertion and eviction and the simulator's own part. */
  public double nsPerOperation() {
    return touches == 0 ? 0 : (double) nanoseconds / touches;
  }
}

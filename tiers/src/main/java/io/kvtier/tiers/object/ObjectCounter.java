package io.kvtier.tiers.object;

/** What an {@link ObjectPipeline} counts. */
public enum ObjectCounter {
  /** Calls on the store. */
  CALLS,
  LOADED,
  LOADED_BYTES,
  /** Loads of what is not there. */
  ABSENT,
  STORED,
  STORED_BYTES,
  /** Stores of what was there already. */
  PRESENT,
  /** Calls that were tried again. */
  RETRIES,
  /** Loads that were begun a second time, and those of them whose second call was first. */
  HEDGES,
  HEDGES_WON,
  /** Calls by what became of them. */
  THROTTLED,
  UNAVAILABLE,
  DENIED,
  EXPIRED,
  CORRUPT,
  /** Transfers that an open breaker kept away. */
  KEPT_AWAY,
  /**
   * Loads that met an object of a key that is not here, or one that is not encrypted but must be.
   */
  OTHER_KEY,
  NOT_ENCRYPTED,
  /** Stores that met an object which this node is known not to be able to read. */
  LEFT_TO_OTHERS
}

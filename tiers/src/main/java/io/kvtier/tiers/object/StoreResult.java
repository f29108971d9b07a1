package io.kvtier.tiers.object;

import java.util.List;

/** How a call on an {@link ObjectStore} ended. */
public sealed interface StoreResult {
  /**
   * It was done.
   *
   * @param bytes how many were read or written; the object's length for a head; the number of names
   *     for a delete
   */
  record Done(long bytes) implements StoreResult {}

  /**
   * A part of a list, by name.
   *
   * @param more whether there may be names after the last of these
   */
  record Page(List<StoredObject> objects, boolean more) implements StoreResult {
    public Page {
      objects = List.copyOf(objects);
    }
  }

  /** There is no such object. */
  record Absent() implements StoreResult {}

  /** There is one already, and it was to be written only if absent. */
  record Present() implements StoreResult {}

  /** The store refuses: credentials, rights, a missing bucket. Another try would be refused too. */
  record Denied(String reason) implements StoreResult {}

  /**
   * The store asks for fewer requests.
   *
   * @param retryAfterNs when to come back; 0 when it does not say
   */
  record Throttled(long retryAfterNs) implements StoreResult {}

  /** The store, or the way to it, failed. Another try may succeed. */
  record Unavailable(String cause) implements StoreResult {}

  /** The deadline passed. A put may have happened all the same. */
  record Expired() implements StoreResult {}

  /** The caller gave up. A put may have happened all the same. */
  record Cancelled() implements StoreResult {}

  /** What arrived is not what the store said it would send. */
  record Corrupt(String reason) implements StoreResult {}

  /** For people: how it ended, and why. */
  default String words() {
    return switch (this) {
      case Done _, Page _ -> "done";
      case Absent _ -> "there is no such object";
      case Present _ -> "there is such an object already";
      case Denied(String reason) -> "the store refuses: " + reason;
      case Throttled _ -> "the store asks for fewer requests";
      case Unavailable(String cause) -> cause;
      case Expired _ -> "no answer in time";
      case Cancelled _ -> "it was cancelled";
      case Corrupt(String reason) -> "damaged on its way: " + reason;
    };
  }
}

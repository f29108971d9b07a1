package io.kvtier.tiers.object;

import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Named objects, written whole and never changed. All calls are asynchronous, and each ends within
 * its deadline. Safe for several threads.
 *
 * <p>Memory that is handed over is native and stays the store's until the call has ended; from then
 * on the store neither reads nor writes it, also when the call was cancelled or expired.
 *
 * <p>A name is made of the characters {@code A-Z a-z 0-9 . _ - /}; none of its parts between
 * slashes is empty, starts with a dot, or is itself the name of another object.
 */
public interface ObjectStore extends ObjectProbe, AutoCloseable {
  /** The most names that one {@link #delete} takes, and one {@link #list} returns. */
  int NAMES_MAX = 1000;

  /**
   * Writes an object. It can be seen when all of it is there, and not before.
   *
   * @param parts its bytes, one part after the other
   * @param ifAbsent leave one that is there as it is: {@link StoreResult.Present}
   */
  StoreCall put(String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs);

  /**
   * Reads as many bytes as the parts have room for; {@link StoreResult.Done} says how many there
   * were, which are fewer where the object ends before.
   *
   * @param parts filled one after the other; after any other end than Done they hold anything
   */
  StoreCall get(String name, long offset, List<MemorySegment> parts, long timeoutNs);

  /** The same, and shows the digest what it reads, or nothing of it where that gains nothing. */
  default StoreCall get(
      String name, long offset, List<MemorySegment> parts, PartDigest digest, long timeoutNs) {
    return get(name, offset, parts, timeoutNs);
  }

  /**
   * The objects whose names start with a prefix, by name in the order of its bytes.
   *
   * @param after only those behind this name; empty for all
   * @param max at most {@link #NAMES_MAX}
   */
  StoreCall list(String prefix, String after, int max, long timeoutNs);

  /** Removes objects. One that is not there counts as removed. */
  StoreCall delete(List<String> names, long timeoutNs);

  /**
   * Removes what writers began and never ended, which no list shows: uploads in parts, temporary
   * files. {@link StoreResult.Done} says how many there were.
   *
   * @param beganBeforeMs only what is older than that, by the store's clock, in ms since 1970
   */
  default StoreCall removeUnfinished(long beganBeforeMs, long timeoutNs) {
    return StoreCall.of(new StoreResult.Done(0));
  }

  /** Ends the calls that are on their way. */
  @Override
  void close();
}

package io.kvtier.daemon.index;

import io.kvtier.protocol.Counter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Blocks that left the last tier of this node without being objects: how many, and why. Confined to
 * the index.
 */
final class Drops {
  /** Why a block was dropped. */
  enum Reason {
    /** It was to become an object while the store was down. */
    STORE_AWAY,
    /** The same, and the store had refused it. */
    REFUSED,
    /** The same, and an object of its name was still to be deleted. */
    BEING_DELETED,
    /** No tier below takes it. */
    NO_ROOM,
    /** Its last copy can't be read. */
    UNREADABLE,
    /** Its last copy does not have the bytes that were accepted. */
    DAMAGED
  }

  private static final Reason[] REASONS = Reason.values();

  private final Directory directory;
  private final Counters counters;
  private final long[] counts = new long[REASONS.length];

  Drops(Directory directory, Counters counters) {
    this.directory = directory;
    this.counters = counters;
  }

  /** A block leaves the last tier; its record still says whether it is an object. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  void count(int block, Reason reason) {
    if (!directory.has(Directory.FLAG_OBJECT, block)) {
      counters.add(Counter.DROPPED, 1);
      counts[reason.ordinal()]++;
    }
  }

  /** The counts, by the names of their reasons in JSON. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  Map<String, Long> counts() {
    Map<String, Long> all = new LinkedHashMap<>();
    for (Reason reason : REASONS) {
      all.put(reason.name().toLowerCase(Locale.ROOT), counts[reason.ordinal()]);
    }
    return all;
  }
}

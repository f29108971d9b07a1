package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.protocol.Counter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Blocks that left the last tier of this node without being objects: how many, and why. Confined to
 * the index.
 */
public final class Drops {
  /** Why a block was dropped. */
  public enum Reason {
    /** The block was to become an object, and the store was down. */
    STORE_AWAY,
    /** The block was to become an object, and the store had refused it. */
    REFUSED,
    /** The block was to become an object, and an object of its name was still being deleted. */
    BEING_DELETED,
    /** No tier below takes the block. */
    NO_ROOM,
    /** The last copy of the block can't be read. */
    UNREADABLE,
    /** The last copy of the block does not have the bytes that were accepted. */
    DAMAGED
  }

  private static final Reason[] REASONS = Reason.values();

  private final Directory directory;
  private final Counters counters;
  private final long[] counts = new long[REASONS.length];

  public Drops(Directory directory, Counters counters) {
    this.directory = directory;
    this.counters = counters;
  }

  /** A block leaves the last tier; its record still says whether it is an object. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public void count(int block, Reason reason) {
    if (!directory.has(Directory.FLAG_OBJECT, block)) {
      counters.add(Counter.DROPPED, 1);
      counts[reason.ordinal()]++;
    }
  }

  /** How many blocks were dropped for a reason, since the start. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public long count(Reason reason) {
    return counts[reason.ordinal()];
  }

  /** The counts, by the names of their reasons in JSON. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public Map<String, Long> counts() {
    Map<String, Long> all = new LinkedHashMap<>();
    for (Reason reason : REASONS) {
      all.put(reason.name().toLowerCase(Locale.ROOT), counts[reason.ordinal()]);
    }
    return all;
  }
}

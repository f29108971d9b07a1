package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.TierId;
import org.jspecify.annotations.Nullable;

/**
 * How a resident tier is called outside of the index, and what its work is counted as.
 *
 * @param id what clients are told of a block that is there
 * @param name in commands, reports and settings
 * @param title in messages to people
 * @param eventBit the tier in events ({@link BlockEvents})
 * @param times what transfers are timed as; null where the tier has none
 */
public record TierTraits(
    TierId id, String name, String title, int eventBit, @Nullable Times times, Counts counts) {
  /** What loads and stores are timed as. */
  public record Times(Latencies.Kind load, Latencies.Kind store) {}

  /**
   * The tier's counters.
   *
   * @param hits blocks that clients got, and that were there
   * @param evictions copies that were dropped to make room
   * @param readBytes bytes that were read from there
   * @param writtenBytes bytes that were written there
   * @param found copies that an earlier daemon left
   */
  public record Counts(
      Counter hits,
      Counter evictions,
      Counter readBytes,
      Counter writtenBytes,
      Counter found,
      Gauges gauges) {}

  /** The tier's gauges: its slots, and its bytes. */
  public record Gauges(
      Counter slots,
      Counter free,
      Counter resident,
      Counter inFlight,
      Counter bytes,
      Counter capacity) {}
}

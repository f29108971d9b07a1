package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.TierId;
import java.util.List;

/** The resident tiers that can be configured. */
public final class KnownTiers {
  /** Host memory. */
  public static final TierTraits HOST =
      new TierTraits(
          TierId.HOST,
          "host",
          "host",
          BlockEvents.HOST,
          null,
          new TierTraits.Counts(
              Counter.HITS_HOST,
              Counter.EVICTIONS,
              Counter.HOST_READ_BYTES,
              Counter.HOST_WRITTEN_BYTES,
              Counter.FOUND_HOST,
              new TierTraits.Gauges(
                  Counter.GAUGE_HOST_SLOTS_TOTAL,
                  Counter.GAUGE_HOST_SLOTS_FREE,
                  Counter.GAUGE_HOST_SLOTS_RESIDENT,
                  Counter.GAUGE_HOST_SLOTS_IN_FLIGHT,
                  Counter.GAUGE_HOST_BYTES_USED,
                  Counter.GAUGE_HOST_BYTES_CAPACITY)));

  /** Files on local SSD. */
  public static final TierTraits SSD =
      new TierTraits(
          TierId.SSD,
          "ssd",
          "SSD",
          BlockEvents.SSD,
          new TierTraits.Times(Latencies.Kind.LOAD_SSD, Latencies.Kind.STORE_SSD),
          new TierTraits.Counts(
              Counter.HITS_SSD,
              Counter.SSD_EVICTIONS,
              Counter.SSD_READ_BYTES,
              Counter.SSD_WRITTEN_BYTES,
              Counter.FOUND_SSD,
              new TierTraits.Gauges(
                  Counter.GAUGE_SSD_SLOTS_TOTAL,
                  Counter.GAUGE_SSD_SLOTS_FREE,
                  Counter.GAUGE_SSD_SLOTS_RESIDENT,
                  Counter.GAUGE_SSD_SLOTS_IN_FLIGHT,
                  Counter.GAUGE_SSD_BYTES_USED,
                  Counter.GAUGE_SSD_BYTES_CAPACITY)));

  /** All of them, in their order. */
  public static final List<TierTraits> ALL = List.of(HOST, SSD);

  private KnownTiers() {}
}

package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Counter;
import java.util.function.ToLongFunction;

/** The gauges of blocks, slots and bytes among the counters. */
final class StoreGauges {
  private final Counters counters;
  private final Directory directory;
  private final TierStack stack;

  StoreGauges(IndexCore core, TierStack stack) {
    counters = core.counters();
    directory = core.directory();
    this.stack = stack;
  }

  /** Brings the gauges up to date. */
  void publish() {
    counters.set(Counter.GAUGE_BLOCKS, directory.size());
    counters.set(Counter.GAUGE_ANNOTATION_BYTES, directory.annotations().bytesUsed());
    for (ResidentTier tier : stack.all()) {
      TierTraits.Gauges gauges = tier.traits().counts().gauges();
      counters.set(gauges.slots(), sum(gauges, one -> one.slots().slotsTotal()));
      counters.set(gauges.free(), sum(gauges, one -> one.slots().slotsFree()));
      counters.set(gauges.resident(), sum(gauges, ResidentTier::resident));
      counters.set(gauges.inFlight(), sum(gauges, ResidentTier::inFlight));
      counters.set(gauges.bytes(), sum(gauges, one -> one.slots().bytesUsed()));
      counters.set(gauges.capacity(), sum(gauges, one -> one.slots().bytesCapacity()));
    }
  }

  /** The sum of a value over all tiers that share gauges. */
  private long sum(TierTraits.Gauges gauges, ToLongFunction<ResidentTier> value) {
    long sum = 0;
    for (int tier = 0; tier < stack.count(); tier++) {
      boolean isOne = stack.at(tier).traits().counts().gauges().equals(gauges);
      sum += isOne ? value.applyAsLong(stack.at(tier)) : 0;
    }
    return sum;
  }
}

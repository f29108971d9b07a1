package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * What the {@link BlockStore} is made of: the tiers, their pipelines, and who hears of changes.
 *
 * @param events hears in which tiers blocks are; null for nobody
 * @param transfers hears how transfers ended
 * @param objects null when there is no object tier
 */
public record StoreParts(
    LongSupplier clock,
    Directory directory,
    Counters counters,
    Latencies latencies,
    @Nullable BlockEvents events,
    TransferWatch transfers,
    Host host,
    Ssd ssd,
    @Nullable ObjectParts objects) {
  /**
   * The host tier.
   *
   * @param policy the specification of its eviction policy
   * @param ledger the rows of its copies
   * @param slabs the memory of its regions
   * @param checksums makes the checksums of host copies
   */
  public record Host(
      SlotAllocator slots,
      String policy,
      Ledger ledger,
      IntFunction<MemorySegment> slabs,
      Pipeline checksums) {}

  /**
   * The SSD tier; without regions when there is none.
   *
   * @param policy the specification of its eviction policy
   * @param admission the specification of its admission policy
   * @param pipelines one for each device
   */
  public record Ssd(
      SlotAllocator slots, String policy, String admission, List<Pipeline> pipelines) {}
}

package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.move.ObjectParts;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.tiers.gpu.GpuTier;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** Everything the index is made of that is not its own. */
public record IndexContext(
    String version,
    long generation,
    LongSupplier clock,
    MemorySegment daemonRegion,
    Directory directory,
    SlotAllocator hostSlots,
    SlotAllocator ssdSlots,
    String hostPolicy,
    String ssdPolicy,
    String ssdAdmission,
    IntFunction<MemorySegment> slabs,
    Pipeline copies,
    Ledger hostLedger,
    List<Pipeline> ssdPipelines,
    String ssdDirectory,
    String ssdEngine,
    boolean directIo,
    @Nullable ObjectParts objects,
    @Nullable GpuTier gpus,
    Counters counters,
    Latencies latencies,
    @Nullable EventRing events,
    RequestTap requests,
    Tenants tenants,
    WriterParts writers) {
  /**
   * The parts of the block store.
   *
   * @param told hears in which tiers blocks are; null for nobody
   */
  StoreParts storeParts(@Nullable BlockEvents told) {
    return new StoreParts(
        clock,
        directory,
        counters,
        latencies,
        told,
        requests,
        new StoreParts.Host(hostSlots, hostPolicy, hostLedger, slabs, copies),
        new StoreParts.Ssd(ssdSlots, ssdPolicy, ssdAdmission, ssdPipelines),
        objects);
  }
}

package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.tiers.gpu.GpuTier;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Everything the index is made of that is not its own.
 *
 * @param lower the tiers below the first, in their order
 * @param sources further sources of blocks, which are asked before the object store
 */
public record IndexContext(
    String version,
    long generation,
    LongSupplier clock,
    MemorySegment daemonRegion,
    Directory directory,
    StoreParts.First first,
    List<StoreParts.Lower> lower,
    List<BlockSource.Opener> sources,
    @Nullable ObjectParts objects,
    @Nullable GpuTier gpus,
    Counters counters,
    Latencies latencies,
    @Nullable EventRing events,
    RequestTap requests,
    Tenants tenants,
    WriterParts writers) {
  public IndexContext {
    lower = List.copyOf(lower);
    sources = List.copyOf(sources);
  }

  /**
   * The parts of the block store.
   *
   * @param told hears in which tiers blocks are; null for nobody
   */
  StoreParts storeParts(@Nullable BlockEvents told) {
    return new StoreParts(
        clock, directory, counters, latencies, told, requests, first, lower, sources, objects);
  }
}

package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.tiers.gpu.GpuTier;
import java.lang.foreign.MemorySegment;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * Everything the index is made of that is not its own.
 *
 * @param tiers where blocks can be
 * @param gpus null where the daemon is started without GPUs
 * @param events hears in which tiers blocks are; null for nobody
 * @param requests hears of requests
 * @param writers who may write to the first tier's slots
 */
public record IndexContext(
    Identity identity,
    IndexCore core,
    StoreParts.Tiers tiers,
    @Nullable GpuTier gpus,
    @Nullable EventRing events,
    RequestTap requests,
    WriterParts writers) {
  /**
   * Which daemon it is.
   *
   * @param generation another number for each start
   * @param daemonRegion what all clients can read
   */
  public record Identity(String version, long generation, MemorySegment daemonRegion) {}

  /**
   * The parts of the block store.
   *
   * @param told hears in which tiers blocks are; null for nobody
   * @param isAwaited whether a request waits for a block's copy in the first tier
   */
  StoreParts storeParts(@Nullable BlockEvents told, IntPredicate isAwaited) {
    return new StoreParts(core, tiers, told, requests, isAwaited);
  }
}

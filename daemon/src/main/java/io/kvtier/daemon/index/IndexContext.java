package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.StoreParts;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.tiers.gpu.GpuTier;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * The parts of the index that are made outside of it.
 *
 * @param tiers the tiers and sources of blocks
 * @param gpus null where the daemon is started without GPUs
 * @param events hears of blocks that come to tiers and leave them; null when nobody listens
 * @param requests hears of requests
 * @param writers the clients that may write to the first tier's slots
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
   * The identity of the daemon.
   *
   * @param generation a random number, different at each start
   * @param daemonRegion the memory that all clients can read
   */
  public record Identity(String version, long generation, MemorySegment daemonRegion) {}
}

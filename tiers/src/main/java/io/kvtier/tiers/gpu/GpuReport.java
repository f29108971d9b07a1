package io.kvtier.tiers.gpu;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A GPU as operators see it.
 *
 * @param encoding the choice for the blocks of the region that was opened last, of those with an
 *     encoding; null if the speeds of raw and encoded copies were not measured
 * @param fence why copying has ended; null while blocks are copied
 */
public record GpuReport(
    GpuDevice device,
    Memory memory,
    int regions,
    Copied copied,
    long errors,
    @Nullable EncodingChoice encoding,
    @Nullable String fence) {
  /**
   * The memory that the daemon takes on the device.
   *
   * @param stagingBytes of both copy engines
   * @param contextBytes of the driver at the start; -1 if not known
   */
  public record Memory(long stagingBytes, long contextBytes) {}

  /**
   * The bytes that were copied.
   *
   * @param peerBytes from other regions, on this GPU or its siblings
   * @param bytesByStrategy given to the GPU by each strategy in all directions, failed copies
   *     included
   */
  public record Copied(
      long offloadedBytes,
      long onboardedBytes,
      long peerBytes,
      Map<CopyStrategy, Long> bytesByStrategy) {}
}

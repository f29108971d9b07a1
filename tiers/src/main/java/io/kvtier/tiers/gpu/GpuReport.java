package io.kvtier.tiers.gpu;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A GPU as operators see it.
 *
 * @param fence why nothing is copied any more; null while blocks are copied
 */
public record GpuReport(
    GpuDevice device,
    Memory memory,
    int regions,
    Copied copied,
    long errors,
    @Nullable String fence) {
  /**
   * What the daemon takes of the device's memory.
   *
   * @param stagingBytes of both copy engines
   * @param contextBytes what the driver took to begin with; -1: not known
   */
  public record Memory(long stagingBytes, long contextBytes) {}

  /**
   * What was copied.
   *
   * @param peerBytes from other regions, on this GPU or its siblings
   * @param bytesByStrategy what each strategy was given in all directions, failed copies included
   */
  public record Copied(
      long offloadedBytes,
      long onboardedBytes,
      long peerBytes,
      Map<CopyStrategy, Long> bytesByStrategy) {}
}

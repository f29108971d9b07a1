package io.kvtier.tiers.gpu;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A GPU as operators see it.
 *
 * @param stagingBytes the device memory that both copy engines take
 * @param contextBytes what the driver took on the device to begin with; -1: not known
 * @param peerBytes what came from other regions, on this GPU or its siblings
 * @param bytesByStrategy how much was given to the GPU how, in all directions; copies that failed
 *     are among it
 * @param fence why nothing is copied any more; null: it is
 */
public record GpuReport(
    GpuDevice device,
    long stagingBytes,
    long contextBytes,
    int regions,
    long offloadedBytes,
    long onboardedBytes,
    long peerBytes,
    long errors,
    Map<CopyStrategy, Long> bytesByStrategy,
    @Nullable String fence) {}

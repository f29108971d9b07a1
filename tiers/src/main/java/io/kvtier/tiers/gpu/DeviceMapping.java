package io.kvtier.tiers.gpu;

/**
 * An allocation of another process, as this one sees it.
 *
 * @param deviceOrdinal which of this process's devices it is on
 */
public record DeviceMapping(long address, long bytes, int deviceOrdinal) {}

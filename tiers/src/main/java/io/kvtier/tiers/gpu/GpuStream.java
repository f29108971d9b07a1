package io.kvtier.tiers.gpu;

/** A queue of a GPU's work, done in order. */
public record GpuStream(long handle) {}

package io.kvtier.tiers.gpu;

/** A place in a stream that other streams, and the host, can wait for. */
public record GpuEvent(long handle) {}

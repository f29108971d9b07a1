package io.kvtier.tiers.transfer;

/**
 * A traced request that waits for blocks. Other nodes make spans below its own.
 *
 * @param traceHigh the upper half of the trace's id, as W3C's trace context defines it
 * @param spanId of the request's own span
 */
public record TracedRequest(long traceHigh, long traceLow, long spanId) {}

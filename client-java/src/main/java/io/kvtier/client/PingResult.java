package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * Whether the daemon answers.
 *
 * @param detail the daemon's version, or why it does not answer and what to do
 * @param roundTripNs how long it took
 */
public record PingResult(Status status, String detail, long roundTripNs) {}

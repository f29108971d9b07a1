package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * What a lookup found.
 *
 * @param status OK when the daemon answered; otherwise why not, and every block says the same
 * @param detail why not, in words
 * @param run how many blocks from the first are there
 * @param loadTimeNs the daemon's estimate of the time to load that run
 */
public record LookupResult(Status status, String detail, Blocks blocks, int run, long loadTimeNs) {}

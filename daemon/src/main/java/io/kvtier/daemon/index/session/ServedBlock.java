package io.kvtier.daemon.index.session;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.TracedRequest;

/**
 * A block that a traced request of another node wanted from here. Times are CLOCK_MONOTONIC, ns.
 *
 * @param request the request there
 * @param status OK: all bytes were sent
 * @param startNs when the node asked
 * @param readyNs when the first bytes could be sent, or were refused
 * @param endNs when the last bytes were sent
 */
public record ServedBlock(
    TracedRequest request, Status status, long bytes, long startNs, long readyNs, long endNs) {}

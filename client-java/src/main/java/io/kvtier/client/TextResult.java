package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * A text that the daemon was asked for.
 *
 * @param text the answer, or why there is none
 */
public record TextResult(Status status, String text) {}

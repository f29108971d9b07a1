package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * What an operation without blocks came to.
 *
 * @param detail why it was not carried out, in words
 * @param value the blocks deleted (clear), written (flush) or annotated
 */
public record ValueResult(Status status, String detail, long value) {}

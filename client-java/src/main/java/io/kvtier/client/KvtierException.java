package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * The daemon refused this client, or a namespace. Only {@link KvtierClient#connect} and {@link
 * KvtierClient#namespace} throw it: the outcomes of operations are values.
 */
public final class KvtierException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status status;

  public KvtierException(Status status, String message) {
    super(message);
    this.status = status;
  }

  public Status status() {
    return status;
  }
}

package io.kvtier.daemon.grpc;

import io.kvtier.protocol.Status;

/** A call that is answered with a reason instead of being carried out. */
final class RefusedException extends Exception {
  private static final long serialVersionUID = 1L;
  private final Status status;

  RefusedException(Status status, String why) {
    super(why, null, false, false);
    this.status = status;
  }

  Status status() {
    return status;
  }

  String why() {
    return String.valueOf(getMessage());
  }
}

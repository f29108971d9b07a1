package io.kvtier.daemon.http;

/** A request that can't be answered as it was meant: with an HTTP status, and why. */
final class ProblemException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final int status;

  ProblemException(int status, String detail) {
    super(detail, null, false, false);
    this.status = status;
  }

  Answer answer() {
    return Answer.problem(status, String.valueOf(getMessage()));
  }
}

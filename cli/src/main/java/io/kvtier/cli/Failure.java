package io.kvtier.cli;

/** A command that ends without an answer: what to tell, and the exit code. */
final class Failure extends RuntimeException {
  static final int NEGATIVE = 1;
  static final int USAGE = 2;
  static final int NO_DAEMON = 3;

  private static final long serialVersionUID = 1L;

  private final int exitCode;

  Failure(int exitCode, String message) {
    super(message);
    this.exitCode = exitCode;
  }

  int exitCode() {
    return exitCode;
  }
}

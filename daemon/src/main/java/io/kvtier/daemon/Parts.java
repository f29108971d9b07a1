package io.kvtier.daemon;

import java.util.Deque;

/** Takes things apart in the opposite order in which they were made. */
final class Parts {
  private Parts() {}

  /** Closes all of them, whatever happens, and throws at the end what happened. */
  static void close(Deque<AutoCloseable> parts) {
    IllegalStateException failed = null;
    while (!parts.isEmpty()) {
      try {
        parts.pop().close();
      } catch (Exception e) {
        // The others are closed all the same.
        if (failed == null) {
          failed = new IllegalStateException("a part of the daemon could not be closed", e);
        } else {
          failed.addSuppressed(e);
        }
      }
    }
    if (failed != null) {
      throw failed;
    }
  }
}

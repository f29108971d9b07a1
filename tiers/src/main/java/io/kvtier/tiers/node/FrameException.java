package io.kvtier.tiers.node;

import java.io.IOException;

/** Bytes that are no frame of this version; the message says what was wrong. */
public final class FrameException extends IOException {
  private static final long serialVersionUID = 1L;

  /** Makes an exception. The message says what was wrong, with the value and what was expected. */
  public FrameException(String message) {
    super(message);
  }
}

package io.kvtier.tiers.node;

import java.io.IOException;

/** Bytes that are no frame of this version; the message says what was wrong. */
public final class FrameException extends IOException {
  private static final long serialVersionUID = 1L;

  /** What was wrong, in words. */
  public FrameException(String message) {
    super(message);
  }
}

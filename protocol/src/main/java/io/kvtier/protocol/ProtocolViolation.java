package io.kvtier.protocol;

/** A peer wrote what the protocol does not allow: its session ends, with this reason. */
public final class ProtocolViolation extends Exception {
  private static final long serialVersionUID = 1L;

  public ProtocolViolation(String message) {
    super(message);
  }
}

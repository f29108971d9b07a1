package io.kvtier.tiers.codec;

import java.io.Serial;

/** Encoded bytes can't be decoded: they are damaged, or not of this codec, or of another length. */
public final class CodecException extends Exception {
  @Serial private static final long serialVersionUID = 1;

  public CodecException(String message) {
    super(message);
  }

  public CodecException(String message, Throwable cause) {
    super(message, cause);
  }
}

package io.kvtier.tiers.gpu;

/** A call of the GPU driver failed. */
public final class GpuException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String reason;
  private final int code;

  /**
   * A failure.
   *
   * @param code the driver's number of the error; 0 where it has none
   */
  public GpuException(String message, int code) {
    super(message);
    reason = message;
    this.code = code;
  }

  /** Which call failed, and why. */
  public String reason() {
    return reason;
  }

  /** The driver's number of the error; 0 where it has none. */
  public int code() {
    return code;
  }
}

package io.kvtier.protocol.linux;

import java.io.IOException;

/** A failed system call: its name, its errno and what it was applied to. */
public final class ErrnoException extends IOException {
  private static final long serialVersionUID = 1L;

  private final int errno;

  ErrnoException(String call, int errno, String detail) {
    super(call + "(" + detail + ") failed: " + Errno.describe(errno));
    this.errno = errno;
  }

  /** The errno value, as in {@code errno.h}. */
  public int errno() {
    return errno;
  }
}

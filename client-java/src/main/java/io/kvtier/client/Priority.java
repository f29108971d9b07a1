package io.kvtier.client;

import io.kvtier.protocol.RequestDescriptor;

/** How urgent an operation is among those that wait for the same device. */
public enum Priority {
  HIGH(RequestDescriptor.PRIORITY_HIGH),
  NORMAL(RequestDescriptor.PRIORITY_NORMAL),
  LOW(RequestDescriptor.PRIORITY_LOW);

  private final int code;

  Priority(int code) {
    this.code = code;
  }

  /** The code in requests. */
  public int code() {
    return code;
  }
}

package io.kvtier.tiers.gpu;

import java.util.Arrays;
import java.util.HexFormat;

/**
 * CUDA's IPC handle: what another process needs to open an allocation of device memory, or an
 * event.
 */
public final class IpcHandle implements DeviceMemory {
  /** Its size. */
  public static final int BYTES = 64;

  private final byte[] bytes;

  /** A handle of {@value #BYTES} bytes. */
  public IpcHandle(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException(
          "an IPC handle of " + bytes.length + " bytes: expected " + BYTES);
    }
    this.bytes = bytes.clone();
  }

  /** A handle from its hexadecimal digits. */
  public static IpcHandle parse(String digits) {
    return new IpcHandle(HexFormat.of().parseHex(digits));
  }

  byte[] bytes() {
    return bytes.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof IpcHandle handle && Arrays.equals(bytes, handle.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return HexFormat.of().formatHex(bytes);
  }
}

package io.kvtier.daemon.doctor;

import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** A pattern of bytes in a GPU's memory, by which one process knows what another wrote. */
final class GpuMemory {
  static final int BYTES = 64 << 10;
  private static final int PAGE_BYTES = 4096;
  private static final int STEP = 31;

  private GpuMemory() {}

  static byte[] pattern() {
    byte[] bytes = new byte[BYTES];
    for (int i = 0; i < BYTES; i++) {
      bytes[i] = (byte) (STEP * i + i / PAGE_BYTES);
    }
    return bytes;
  }

  /** Writes the pattern. */
  static void write(Gpu gpu, long address) {
    try (Arena arena = Arena.ofShared()) {
      MemorySegment host = arena.allocate(BYTES, PAGE_BYTES);
      MemorySegment.copy(pattern(), 0, host, ValueLayout.JAVA_BYTE, 0, BYTES);
      copy(gpu, host, at -> new long[] {address, at});
    }
  }

  /** Whether the pattern is there. */
  static boolean has(Gpu gpu, long address) {
    try (Arena arena = Arena.ofShared()) {
      MemorySegment host = arena.allocate(BYTES, PAGE_BYTES);
      copy(gpu, host, at -> new long[] {at, address});
      return host.mismatch(MemorySegment.ofArray(pattern())) < 0;
    }
  }

  /** Makes target and source of where the GPU sees the host's memory. */
  private interface Ends {
    long[] of(long host);
  }

  private static void copy(Gpu gpu, MemorySegment host, Ends ends) {
    long[] between = ends.of(gpu.register(host));
    try {
      GpuStream stream = gpu.createStream(false);
      try {
        gpu.copy(stream, between[0], between[1], BYTES);
        gpu.synchronize(stream);
      } finally {
        gpu.destroy(stream);
      }
    } finally {
      gpu.unregister(host);
    }
  }
}

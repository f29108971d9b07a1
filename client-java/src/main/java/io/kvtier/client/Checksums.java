package io.kvtier.client;

import java.lang.foreign.MemorySegment;
import java.util.zip.CRC32C;

/** CRC32C over memory. */
final class Checksums {
  private Checksums() {}

  // Small enough to stay in the first two caches between its copying and its checksumming.
  private static final long CHUNK_BYTES = 128 * 1024;

  /**
   * Copies, and makes the checksum of what was copied on the way: the bytes come from memory once.
   */
  static int copy(MemorySegment source, MemorySegment target) {
    CRC32C checksum = new CRC32C();
    long bytes = source.byteSize();
    for (long at = 0; at < bytes; at += CHUNK_BYTES) {
      long chunk = Math.min(CHUNK_BYTES, bytes - at);
      MemorySegment.copy(source, at, target, at, chunk);
      checksum.update(source.asSlice(at, chunk).asByteBuffer());
    }
    return (int) checksum.getValue();
  }

  static int of(MemorySegment segment) {
    CRC32C checksum = new CRC32C();
    checksum.update(segment.asByteBuffer());
    return (int) checksum.getValue();
  }
}

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
    copy(source, target, 0, source.byteSize(), checksum);
    return (int) checksum.getValue();
  }

  /** As the other, and runs something when little is left to copy. */
  static int copy(
      MemorySegment source, MemorySegment target, long left, Runnable whenLittleIsLeft) {
    CRC32C checksum = new CRC32C();
    long most = Math.max(0, source.byteSize() - left);
    copy(source, target, 0, most, checksum);
    whenLittleIsLeft.run();
    copy(source, target, most, source.byteSize(), checksum);
    return (int) checksum.getValue();
  }

  private static void copy(
      MemorySegment source, MemorySegment target, long from, long to, CRC32C checksum) {
    for (long at = from; at < to; at += CHUNK_BYTES) {
      long chunk = Math.min(CHUNK_BYTES, to - at);
      MemorySegment.copy(source, at, target, at, chunk);
      checksum.update(source.asSlice(at, chunk).asByteBuffer());
    }
  }

  static int of(MemorySegment segment) {
    CRC32C checksum = new CRC32C();
    checksum.update(segment.asByteBuffer());
    return (int) checksum.getValue();
  }
}

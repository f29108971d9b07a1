package io.kvtier.client;

import java.lang.foreign.MemorySegment;
import java.util.zip.CRC32C;

/** CRC32C over memory. */
final class Checksums {
  private Checksums() {}

  static int of(MemorySegment segment) {
    CRC32C checksum = new CRC32C();
    checksum.update(segment.asByteBuffer());
    return (int) checksum.getValue();
  }
}

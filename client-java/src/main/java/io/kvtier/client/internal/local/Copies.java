package io.kvtier.client.internal.local;

import io.kvtier.protocol.linux.NativeCopy;
import java.lang.foreign.MemorySegment;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Copies of blocks and their CRC32C: natively where that can be, in Java everywhere else. */
final class Copies {
  /** The copies of this machine. */
  static final Copies OF_THIS_MACHINE = new Copies(NativeCopy.get());

  // Small enough to stay in the first two caches between its copying and its checksumming.
  private static final long CHUNK_BYTES = 128 * 1024;

  // Under this the JDK's own copy and checksum cost less than the way to ours.
  private static final long NATIVE_BYTES_MIN = 16 * 1024;

  private final @Nullable NativeCopy nativeCopy;

  /**
   * Copies.
   *
   * @param nativeCopy null to do all of it in Java
   */
  Copies(@Nullable NativeCopy nativeCopy) {
    this.nativeCopy = nativeCopy;
  }

  /** Copies all of the source to the start of the target. */
  void copy(MemorySegment source, MemorySegment target) {
    if (nativeCopy != null && source.byteSize() >= NATIVE_BYTES_MIN) {
      nativeCopy.copy(source, target);
    } else {
      MemorySegment.copy(source, 0, target, 0, source.byteSize());
    }
  }

  /**
   * As {@link #copy}, and makes the checksum of what was copied: the bytes come from memory once.
   */
  int copyWithChecksum(MemorySegment source, MemorySegment target) {
    return copyWithChecksum(source, target, 0, () -> {});
  }

  /** As the other, and runs something before the last bytes of the source, that many. */
  int copyWithChecksum(
      MemorySegment source, MemorySegment target, long lastBytes, Runnable beforeTheLast) {
    long first = Math.max(0, source.byteSize() - lastBytes);
    if (nativeCopy != null && source.byteSize() >= NATIVE_BYTES_MIN) {
      int checksum = nativeCopy.copyCrc32c(0, source.asSlice(0, first), target);
      beforeTheLast.run();
      return nativeCopy.copyCrc32c(checksum, source.asSlice(first), target.asSlice(first));
    }
    CRC32C checksum = new CRC32C();
    copyChunks(source, target, 0, first, checksum);
    beforeTheLast.run();
    copyChunks(source, target, first, source.byteSize(), checksum);
    return (int) checksum.getValue();
  }

  private static void copyChunks(
      MemorySegment source, MemorySegment target, long from, long to, CRC32C checksum) {
    for (long at = from; at < to; at += CHUNK_BYTES) {
      long chunk = Math.min(CHUNK_BYTES, to - at);
      MemorySegment.copy(source, at, target, at, chunk);
      // The target's: it is what is kept, and a source may be an array of anything.
      checksum.update(target.asSlice(at, chunk).asByteBuffer());
    }
  }

  /** The checksum of all of a segment. */
  static int checksum(MemorySegment segment) {
    CRC32C checksum = new CRC32C();
    checksum.update(segment.asByteBuffer());
    return (int) checksum.getValue();
  }
}

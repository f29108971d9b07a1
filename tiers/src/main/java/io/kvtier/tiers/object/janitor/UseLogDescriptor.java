package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectKey;

/**
 * The layout of a log of uses: which objects a node used before the log was written. Little-endian.
 *
 * <pre>
 *    0  u64 magic "KVTIERUS"    8  u32 format version
 *   12  u32 CRC32C of the digests
 *   16  u64 a digest each, in no order, none twice
 * </pre>
 */
final class UseLogDescriptor {
  static final long MAGIC = 0x5355_5245_4954_564BL; // "KVTIERUS" in memory order

  /** A bump has the logs of other versions ignored, and removed when they are old. */
  static final int VERSION = 1;

  static final int MAGIC_OFFSET = 0;
  static final int VERSION_OFFSET = 8;
  static final int CHECKSUM_OFFSET = 12;
  static final int DIGESTS_OFFSET = 16;

  private UseLogDescriptor() {}

  /**
   * What a log says of a block. Of two blocks with one digest the one counts as used with the
   * other. Never 0.
   */
  static long digest(ObjectKey key) {
    // The lower half is the one that all of a block's name goes into.
    return key.low() == 0 ? 1 : key.low();
  }
}

package io.kvtier.tiers.ledger;

/**
 * The layout of a ledger's row: one block in one slot. Little-endian. A row that was written in
 * part, damaged, or found under another place than its own does not verify, and counts as damaged.
 *
 * <pre>
 *    0  u8  version            1  u8  key bytes        2  u16 annotation bytes
 *    4  u32 group
 *    8  key, 32 bytes, zero-padded
 *   40  u64 namespace fingerprint, upper half         48  u64 lower half
 *   56  u64 generation of the store that put the block there
 *   64  u64 fingerprint of the block before it in its sequence
 *   72  u32 depth in its sequence                     76  u32 length of the block in bytes
 *   80  u32 CRC32C of the block                       84  u32 place, lower half
 *   88  u32 place, upper half
 *   92  u32 CRC32C of bytes 0 to 92, and of the annotation
 *   96  the annotation, or elsewhere, as the ledger has it
 * </pre>
 *
 * <p>A row without an annotation is of version 1, as such rows ever were; one with is of version 2.
 */
public final class LedgerEntryDescriptor {
  /** A bump drops what every ledger holds, and with it what its tier holds. */
  public static final int VERSION = 1;

  /** Of a row with an annotation: a daemon that does not know of them takes it for damaged. */
  public static final int VERSION_ANNOTATED = 2;

  public static final int VERSION_OFFSET = 0;
  public static final int KEY_BYTES_OFFSET = 1;
  public static final int ANNOTATION_BYTES_OFFSET = 2;
  public static final int GROUP_OFFSET = 4;
  public static final int KEY_OFFSET = 8;
  public static final int NAMESPACE_HIGH_OFFSET = 40;
  public static final int NAMESPACE_LOW_OFFSET = 48;
  public static final int GENERATION_OFFSET = 56;
  public static final int PARENT_OFFSET = 64;
  public static final int DEPTH_OFFSET = 72;
  public static final int LENGTH_OFFSET = 76;
  public static final int CHECKSUM_OFFSET = 80;
  public static final int PLACE_LOW_OFFSET = 84;
  public static final int PLACE_HIGH_OFFSET = 88;
  public static final int ROW_CHECKSUM_OFFSET = 92;
  public static final int ROW_BYTES = 96;

  private LedgerEntryDescriptor() {}
}

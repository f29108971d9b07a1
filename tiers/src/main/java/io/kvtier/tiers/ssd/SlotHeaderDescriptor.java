package io.kvtier.tiers.ssd;

/**
 * The layout of the page that stands before a block's bytes in an SSD slot. Little-endian.
 *
 * <pre>
 *    0  u64 magic "KVTIERBK"    8  u32 format version  12  u32 CRC32C of bytes 16 to 96
 *   16  u64 generation: which start of the daemon wrote it
 *   24  u32 namespace id       28  u16 group  30  u8 key bytes  31  u8 zero
 *   32  key, 32 bytes, zero-padded
 *   64  u32 length of the block in bytes      68  u32 CRC32C of the block
 *   72  zero
 * 4096  the block's bytes, padded to 4 KiB
 * </pre>
 */
public final class SlotHeaderDescriptor {
  public static final long MAGIC = 0x4B42_5245_4954_564BL; // "KVTIERBK" in memory order

  /** A bump drops everything on the SSD. */
  public static final int VERSION = 1;

  public static final int MAGIC_OFFSET = 0;
  public static final int VERSION_OFFSET = 8;
  public static final int HEADER_CHECKSUM_OFFSET = 12;
  public static final int GENERATION_OFFSET = 16;
  public static final int NAMESPACE_OFFSET = 24;
  public static final int GROUP_OFFSET = 28;
  public static final int KEY_BYTES_OFFSET = 30;
  public static final int KEY_OFFSET = 32;
  public static final int LENGTH_OFFSET = 64;
  public static final int CHECKSUM_OFFSET = 68;
  public static final int CHECKED_BEGIN = 16;
  public static final int CHECKED_END = 96;
  public static final int HEADER_BYTES = 4096;

  private SlotHeaderDescriptor() {}
}

package io.kvtier.tiers.ssd;

/**
 * The layout of the page that stands before a block's bytes in an SSD slot. Little-endian.
 *
 * <pre>
 *    0  u64 magic "KVTIERBK"    8  u32 format version  12  u32 CRC32C of bytes 16 to 128
 *   16  u64 generation: which store wrote it, counted over all starts of the daemon
 *   24  u128 fingerprint of the namespace
 *   40  u16 group   42  u8 key bytes
 *   43  u8 what the bytes are encoded with, the codec's id: 0 for as they are
 *   44  u32 length of the block in bytes
 *   48  key, 32 bytes, zero-padded
 *   80  u32 CRC32C of the block        84  i32 depth of the block in its sequence
 *   88  u64 fingerprint of the block before it, 0 when unknown
 *   96  u32 bytes that stand here: fewer than the block's length where they are encoded, else equal
 *  100  zero
 * 4096  the block's bytes, or what they were encoded into, padded to 4 KiB; behind that whatever
 *       stood in the slot before
 * </pre>
 */
public final class SlotHeaderDescriptor {
  public static final long MAGIC = 0x4B42_5245_4954_564BL; // "KVTIERBK" in memory order

  /** A bump drops everything on the SSD. */
  public static final int VERSION = 3;

  public static final int MAGIC_OFFSET = 0;
  public static final int VERSION_OFFSET = 8;
  public static final int HEADER_CHECKSUM_OFFSET = 12;
  public static final int GENERATION_OFFSET = 16;
  public static final int NAMESPACE_OFFSET = 24;
  public static final int GROUP_OFFSET = 40;
  public static final int KEY_BYTES_OFFSET = 42;
  public static final int CODEC_OFFSET = 43;
  public static final int LENGTH_OFFSET = 44;
  public static final int KEY_OFFSET = 48;
  public static final int CHECKSUM_OFFSET = 80;
  public static final int DEPTH_OFFSET = 84;
  public static final int PARENT_OFFSET = 88;
  public static final int STORED_BYTES_OFFSET = 96;
  public static final int CHECKED_BEGIN = 16;
  public static final int CHECKED_END = 128;
  public static final int HEADER_BYTES = 4096;

  private SlotHeaderDescriptor() {}
}

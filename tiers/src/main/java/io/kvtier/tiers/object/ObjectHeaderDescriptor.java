package io.kvtier.tiers.object;

/**
 * The layout of an object: a header that names and checks its blocks, and their stored bytes, one
 * block after the other. Little-endian.
 *
 * <pre>
 *    0  u64 magic "KVTIEROB"    8  u32 format version
 *   12  u32 CRC32C of the header's other bytes: 0 to 12, and 16 to its end
 *   16  u32 header bytes       20  u32 blocks
 *   24  8 bytes, the id of the key: the first of its SHA-256; zero when not encrypted
 *   32  u128 fingerprint of the namespace
 *   48  u8 cipher, 0 for none, 1 for AES-256-GCM
 *   49  zero
 *   64  an entry a block:
 *        0  key, 32 bytes, zero-padded
 *       32  u64 generation: which store wrote it, counted by its writer
 *       40  u64 fingerprint of the block before it, 0 when unknown
 *       48  u32 length of the block          52  u32 length as stored
 *       56  u32 CRC32C of the block          60  i32 depth of the block in its sequence
 *       64  u16 group   66  u8 key bytes     67  u8 codec, 0 for bytes as they are
 *       68  u16 annotation bytes      70  zero
 *       72  u64 where the stored bytes begin, from the object's begin
 *       80  12 bytes, the cipher's nonce     92  u32 CRC32C of the annotation
 *       96  16 bytes, the cipher's tag
 *      112  zero
 *      128
 *    .  zero, up to a multiple of 64
 *    .  the stored bytes, and behind those of each block its annotation
 * </pre>
 *
 * <p>A block is encoded first, then encrypted. What its cipher authenticates with it is the whole
 * header, with zeroes for the header's checksum and for all tags. Each block is encrypted by itself
 * and as one with its annotation, so that a part of an object can be read.
 *
 * <p>The first 20 bytes stay as they are in every version.
 */
public final class ObjectHeaderDescriptor {
  public static final long MAGIC = 0x424F_5245_4954_564BL; // "KVTIEROB" in memory order

  /** A bump leaves the objects of other versions unread, and in their places. */
  public static final int VERSION = 2;

  /** Of an object with an annotation; one without is of {@link #VERSION}, as it ever was. */
  public static final int VERSION_ANNOTATED = 3;

  public static final int MAGIC_OFFSET = 0;
  public static final int VERSION_OFFSET = 8;
  public static final int HEADER_CHECKSUM_OFFSET = 12;
  public static final int HEADER_BYTES_OFFSET = 16;
  public static final int BLOCKS_OFFSET = 20;
  public static final int KEY_ID_OFFSET = 24;
  public static final int NAMESPACE_OFFSET = 32;
  public static final int CIPHER_OFFSET = 48;
  public static final int ENTRIES_OFFSET = 64;

  public static final int ENTRY_BYTES = 128;
  public static final int KEY_OFFSET = 0;
  public static final int KEY_BYTES_MAX = 32;
  public static final int GENERATION_OFFSET = 32;
  public static final int PARENT_OFFSET = 40;
  public static final int LENGTH_OFFSET = 48;
  public static final int STORED_LENGTH_OFFSET = 52;
  public static final int CHECKSUM_OFFSET = 56;
  public static final int DEPTH_OFFSET = 60;
  public static final int GROUP_OFFSET = 64;
  public static final int KEY_LENGTH_OFFSET = 66;
  public static final int CODEC_OFFSET = 67;
  public static final int ANNOTATION_BYTES_OFFSET = 68;
  public static final int ANNOTATION_BYTES_MAX = 2048;
  public static final int BEGIN_OFFSET = 72;
  public static final int NONCE_OFFSET = 80;
  public static final int ANNOTATION_CHECKSUM_OFFSET = 92;
  public static final int TAG_OFFSET = 96;

  private static final int ALIGNMENT = 64;

  private ObjectHeaderDescriptor() {}

  /** The length of the header of so many blocks. */
  public static int headerBytes(int blocks) {
    int bytes = ENTRIES_OFFSET + blocks * ENTRY_BYTES;
    return (bytes + ALIGNMENT - 1) & -ALIGNMENT;
  }

  /** Where a block's entry begins. */
  public static int entryOffset(int block) {
    return ENTRIES_OFFSET + block * ENTRY_BYTES;
  }
}

package io.kvtier.tiers.node;

/**
 * The layout of what daemons send each other. A frame is a head, a body and, for {@link
 * FrameType#BLOCK}, {@link FrameType#PUSH} and {@link FrameType#PIECE}, bytes of a block, unless
 * these come by the fabric, with a tag. All numbers are little-endian.
 *
 * <pre>
 *  0 +---------------------+---------------------+
 *    | magic and version   | type                |
 *  8 +---------------------+---------------------+
 *    | incarnation of the sender                 |
 * 16 +-------------------------------------------+
 *    | incarnation of the receiver; 0 in HELLO   |
 * 24 +-------------------------------------------+
 *    | request that the frame makes or answers   |
 * 32 +---------------------+---------------------+
 *    | length of the body  | length of the block |
 * 40 +---------------------+---------------------+
 *    | CRC-32C of the block| status              |
 * 48 +---------------------+---------------------+
 *    | lease                                     |
 * 56 +-------------------------------------------+
 *    | tag of the block; 0: its bytes follow     |
 * 64 +-------------------------------------------+
 * </pre>
 *
 * A change of the layout needs another magic: daemons of the two versions then refuse each other,
 * and serve on without each other's blocks.
 */
final class FrameDescriptor {
  /** The letters KVN3. */
  static final int MAGIC = 0x334e_564b;

  static final int MAGIC_OFFSET = 0;
  static final int TYPE_OFFSET = 4;
  static final int SENDER_OFFSET = 8;
  static final int RECEIVER_OFFSET = 16;
  static final int ID_OFFSET = 24;
  static final int BODY_BYTES_OFFSET = 32;
  static final int PAYLOAD_BYTES_OFFSET = 36;
  static final int CHECKSUM_OFFSET = 40;
  static final int STATUS_OFFSET = 44;
  static final int LEASE_OFFSET = 48;
  static final int TAG_OFFSET = 56;
  static final int HEAD_BYTES = 64;

  /** Maximum length of a body: {@link Messages#KEYS_MAX} keys of 32 bytes, and their namespace. */
  static final int BODY_BYTES_MAX = (64 << 10) + 64;

  private FrameDescriptor() {}
}

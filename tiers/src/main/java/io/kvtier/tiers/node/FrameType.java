package io.kvtier.tiers.node;

import org.jspecify.annotations.Nullable;

/**
 * The purpose of a frame. The side that has connected sends requests, the other side answers them.
 * The frames of one push all have the number of its RESERVE.
 */
public enum FrameType {
  /** The first frame of a reader: its name and its token. */
  HELLO(1),

  /** The answer to a HELLO that the holder accepts: the holder's name. */
  WELCOME(2),

  /** The answer to a HELLO that the holder does not accept: why, in words. The link then closes. */
  REFUSED(3),

  /** Asks which blocks are there. */
  ASK(4),

  /** Where the blocks of an ASK are: {@link Messages.Places}. */
  ANSWER(5),

  /**
   * Asks for the bytes of blocks of one length. The frame has the number of the first block. The
   * numbers of the others follow, and each block is answered on its own.
   */
  FETCH(6),

  /** The bytes of a block, and the lease that the holder keeps until RELEASE. */
  BLOCK(7),

  /** The block of a FETCH or FOLLOW can't be had: the status says why. */
  NONE(8),

  /** Ends leases. The status is CORRUPT if the bytes did not match their checksum. */
  RELEASE(9),

  /** Asks for a PONG. */
  PING(10),

  /** The answer to a PING. */
  PONG(11),

  /** Tells the properties of a namespace, so that blocks of it can be pushed. */
  SPACE(12),

  /** Asks for a slot that a block can be pushed to. */
  RESERVE(13),

  /** The slot is reserved; or the namespace of a SPACE is registered. */
  GO(14),

  /** The block of a RESERVE is in the other node already. */
  HAVE(15),

  /** The block of a RESERVE, or the namespace of a SPACE, is not taken: the status says why. */
  NO(16),

  /** The bytes of a block for which there is a slot. */
  PUSH(17),

  /** The end of a push: the block is visible if the status is OK. */
  PUSHED(18),

  /** The block of a RESERVE is not going to be pushed. */
  ABORT(19),

  /** Tells which blocks have come to the reader's memory, and which have left. */
  ANNOUNCE(20),

  /** The answer to an ANNOUNCE. The status is STALE if announcements are missing. */
  NOTED(21),

  /** Asks which nodes have blocks of the holder's partitions. */
  LOCATE(22),

  /** The nodes of the blocks of a LOCATE: {@link DirectoryMessages.Located}. */
  LOCATED(23),

  /** Asks for the bytes of one block that the other node may not have yet, piece by piece. */
  FOLLOW(24),

  /** Some bytes of the block of a FOLLOW. */
  PIECE(25),

  /** All pieces of the block of a FOLLOW were sent, and this is the checksum of the block. */
  WHOLE(26),

  /** Ends a FOLLOW. The status is CORRUPT if the bytes did not match the checksum of WHOLE. */
  STOP(27),

  /**
   * The traced request that waits for the blocks of the FETCH or FOLLOW with this number, which
   * comes next.
   */
  TRACE(28),

  /**
   * The address of this side's path for blocks ({@link FabricPath}). The side that was connected to
   * offers its own first, and the other side answers, unless it has no fabric. Links keep these
   * frames to themselves.
   */
  FABRIC(29);

  private static final FrameType[] BY_CODE = new FrameType[30];

  static {
    for (FrameType type : values()) {
      BY_CODE[type.code] = type;
    }
  }

  private final int code;

  FrameType(int code) {
    this.code = code;
  }

  int code() {
    return code;
  }

  /** Whether the bytes of a block can follow the frame. */
  boolean hasBlock() {
    return this == BLOCK || this == PUSH || this == PIECE;
  }

  /** The type of a code; null if there is none. */
  static @Nullable FrameType of(int code) {
    return code > 0 && code < BY_CODE.length ? BY_CODE[code] : null;
  }
}

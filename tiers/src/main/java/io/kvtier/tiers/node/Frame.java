package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * A frame without the bytes of its block, in the layout of {@link FrameDescriptor}.
 *
 * @param sender the incarnation of the daemon that sends
 * @param receiver the incarnation of the daemon that receives; 0 in the first frame, whose sender
 *     does not know it
 * @param id the request that the frame makes or answers
 * @param body little-endian, from its position to its limit
 * @param payloadBytes the length of the block that follows; 0: none does
 * @param checksum the CRC-32C of that block, which the block's writer made
 * @param lease the holder's number of its lease
 */
public record Frame(
    FrameType type,
    Status status,
    long sender,
    long receiver,
    long id,
    ByteBuffer body,
    int payloadBytes,
    int checksum,
    long lease) {
  /** A block that a node does not have. */
  public static final byte ABSENT = 0;

  /** A block in the memory of a node. */
  public static final byte IN_MEMORY = 1;

  /** A block in a lower tier of a node, which the node does not load for others. */
  public static final byte BELOW = 2;

  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** A frame without body and block. */
  public static Frame of(FrameType type, Status status, long sender, long receiver, long id) {
    return new Frame(type, status, sender, receiver, id, NOTHING, 0, 0, 0);
  }

  /** This frame with a body. */
  public Frame with(ByteBuffer content) {
    return new Frame(type, status, sender, receiver, id, content, payloadBytes, checksum, lease);
  }

  /** This frame with a text as its body, cut to a kilobyte. */
  public Frame with(String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    return with(ByteBuffer.wrap(utf8, 0, Math.min(utf8.length, 1024)));
  }

  /** This frame with a block and its lease. */
  public Frame with(int blockBytes, int blockChecksum, long leased) {
    return new Frame(type, status, sender, receiver, id, body, blockBytes, blockChecksum, leased);
  }

  /** The body as a text. */
  public String text() {
    return StandardCharsets.UTF_8.decode(body.duplicate()).toString();
  }

  /** Head and body, to be sent. */
  ByteBuffer encoded() {
    int bodyBytes = body.remaining();
    if (bodyBytes > FrameDescriptor.BODY_BYTES_MAX) {
      throw new IllegalArgumentException("a body of " + bodyBytes + " bytes");
    }
    ByteBuffer out =
        ByteBuffer.allocate(FrameDescriptor.HEAD_BYTES + bodyBytes).order(ByteOrder.LITTLE_ENDIAN);
    out.putInt(FrameDescriptor.MAGIC_OFFSET, FrameDescriptor.MAGIC);
    out.putInt(FrameDescriptor.TYPE_OFFSET, type.code());
    out.putLong(FrameDescriptor.SENDER_OFFSET, sender);
    out.putLong(FrameDescriptor.RECEIVER_OFFSET, receiver);
    out.putLong(FrameDescriptor.ID_OFFSET, id);
    out.putInt(FrameDescriptor.BODY_BYTES_OFFSET, bodyBytes);
    out.putInt(FrameDescriptor.PAYLOAD_BYTES_OFFSET, payloadBytes);
    out.putInt(FrameDescriptor.CHECKSUM_OFFSET, checksum);
    out.putInt(FrameDescriptor.STATUS_OFFSET, status.code());
    out.putLong(FrameDescriptor.LEASE_OFFSET, lease);
    out.position(FrameDescriptor.HEAD_BYTES).put(body.duplicate());
    return out.flip();
  }

  /** How many bytes head and body have; -1 if the head is not complete. */
  static int bytes(ByteBuffer in) throws FrameException {
    if (in.remaining() < FrameDescriptor.HEAD_BYTES) {
      return -1;
    }
    int at = in.position();
    int magic = in.getInt(at + FrameDescriptor.MAGIC_OFFSET);
    int body = in.getInt(at + FrameDescriptor.BODY_BYTES_OFFSET);
    int payload = in.getInt(at + FrameDescriptor.PAYLOAD_BYTES_OFFSET);
    if (magic != FrameDescriptor.MAGIC) {
      throw new FrameException(
          "a frame begins with "
              + Integer.toHexString(magic)
              + ", expected "
              + Integer.toHexString(FrameDescriptor.MAGIC)
              + ": it is no kvtier node of this version");
    }
    if (body < 0 || body > FrameDescriptor.BODY_BYTES_MAX) {
      throw new FrameException(
          "a body has " + body + " bytes, expected 0 to " + FrameDescriptor.BODY_BYTES_MAX);
    }
    if (payload < 0) {
      throw new FrameException("a block has " + payload + " bytes");
    }
    return FrameDescriptor.HEAD_BYTES + body;
  }

  /** The tag of the block of a frame whose head is complete; 0: the bytes follow the frame. */
  static long tag(ByteBuffer in) {
    return in.getLong(in.position() + FrameDescriptor.TAG_OFFSET);
  }

  /**
   * Takes a frame that is complete, but for its block. Its body is a view, which holds until the
   * buffer changes.
   */
  static Frame take(ByteBuffer in) throws FrameException {
    int at = in.position();
    FrameType type = FrameType.of(in.getInt(at + FrameDescriptor.TYPE_OFFSET));
    Status status = Status.of(in.getInt(at + FrameDescriptor.STATUS_OFFSET));
    int payload = in.getInt(at + FrameDescriptor.PAYLOAD_BYTES_OFFSET);
    if (type == null) {
      throw new FrameException(
          "a frame has type "
              + in.getInt(at + FrameDescriptor.TYPE_OFFSET)
              + ", which this version does not know");
    }
    if (payload > 0 && !type.hasBlock()) {
      throw new FrameException("a frame " + type + " has a block of " + payload + " bytes");
    }
    int bodyBytes = in.getInt(at + FrameDescriptor.BODY_BYTES_OFFSET);
    Frame frame =
        new Frame(
            type,
            status,
            in.getLong(at + FrameDescriptor.SENDER_OFFSET),
            in.getLong(at + FrameDescriptor.RECEIVER_OFFSET),
            in.getLong(at + FrameDescriptor.ID_OFFSET),
            in.slice(at + FrameDescriptor.HEAD_BYTES, bodyBytes).order(ByteOrder.LITTLE_ENDIAN),
            payload,
            in.getInt(at + FrameDescriptor.CHECKSUM_OFFSET),
            in.getLong(at + FrameDescriptor.LEASE_OFFSET));
    in.position(at + FrameDescriptor.HEAD_BYTES + bodyBytes);
    return frame;
  }
}

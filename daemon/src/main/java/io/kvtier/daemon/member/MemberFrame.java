package io.kvtier.daemon.member;

import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.NodeAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/**
 * A message between members, little-endian:
 *
 * <pre>
 *  0  u32  magic
 *  4  u8   version
 *  5  u8   kind
 *  6  u64  incarnation of the sender      | only in HERE
 * 14  u16  port of the sender             |
 * 16  u16  length of its host, then UTF-8 |
 *     u16  length of its name, then UTF-8 |
 * </pre>
 */
sealed interface MemberFrame {
  /** The sender is there, and serves blocks. */
  record Here(Member member) implements MemberFrame {}

  /** Asks for {@link Here}. */
  record Who() implements MemberFrame {}

  int MAGIC = 0x314D564B;
  byte VERSION = 1;
  byte HERE = 1;
  byte WHO = 2;
  int HEAD_BYTES = 6;
  int TEXT_BYTES_MAX = 256;

  /** The most bytes of a frame. */
  int BYTES_MAX = HEAD_BYTES + 10 + 2 * (2 + TEXT_BYTES_MAX);

  /** The characters of host names and addresses. */
  Pattern HOST = Pattern.compile("[0-9A-Za-z._:%-]+");

  /** The bytes of this frame. */
  default byte[] encoded() {
    return switch (this) {
      case Who _ -> head(0, WHO).array();
      case Here(Member member) -> {
        byte[] host = member.address().host().getBytes(StandardCharsets.UTF_8);
        byte[] name = member.name().getBytes(StandardCharsets.UTF_8);
        if (host.length > TEXT_BYTES_MAX || name.length > TEXT_BYTES_MAX) {
          throw new IllegalArgumentException("a name of more than " + TEXT_BYTES_MAX + " bytes");
        }
        yield head(14 + host.length + name.length, HERE)
            .putLong(member.incarnation())
            .putShort((short) member.address().port())
            .putShort((short) host.length)
            .put(host)
            .putShort((short) name.length)
            .put(name)
            .array();
      }
    };
  }

  private static ByteBuffer head(int more, byte kind) {
    return ByteBuffer.allocate(HEAD_BYTES + more)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(MAGIC)
        .put(VERSION)
        .put(kind);
  }

  /**
   * Reads a frame.
   *
   * @throws FrameException if the bytes are no frame of this version, saying why
   */
  static MemberFrame of(byte[] bytes) throws FrameException {
    if (bytes.length < HEAD_BYTES || bytes.length > BYTES_MAX) {
      throw new FrameException("a message of a member has " + bytes.length + " bytes");
    }
    ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    int magic = in.getInt();
    int version = in.get();
    int kind = in.get();
    if (magic != MAGIC || version != VERSION) {
      throw new FrameException(
          "a message of a member begins with "
              + Integer.toHexString(magic)
              + " and has version "
              + version
              + ", expected "
              + Integer.toHexString(MAGIC)
              + " and "
              + VERSION);
    }
    MemberFrame frame =
        switch (kind) {
          case WHO -> new Who();
          case HERE -> new Here(member(in));
          default -> throw new FrameException("a message of a member has kind " + kind);
        };
    if (in.hasRemaining()) {
      throw new FrameException(in.remaining() + " bytes follow a message of a member");
    }
    return frame;
  }

  private static Member member(ByteBuffer in) throws FrameException {
    if (in.remaining() < Long.BYTES + Short.BYTES) {
      throw new FrameException("a message of a member ends too early");
    }
    long incarnation = in.getLong();
    int port = Short.toUnsignedInt(in.getShort());
    String host = text(in);
    String name = text(in);
    if (incarnation == 0 || port == 0 || !HOST.matcher(host).matches()) {
      throw new FrameException(
          "a member says that it serves at port " + port + " of a host that can't be");
    }
    return new Member(new NodeAddress(host, port), name, incarnation);
  }

  private static String text(ByteBuffer in) throws FrameException {
    int bytes = in.remaining() < Short.BYTES ? -1 : Short.toUnsignedInt(in.getShort());
    if (bytes < 0 || bytes > TEXT_BYTES_MAX || bytes > in.remaining()) {
      throw new FrameException("a text of " + bytes + " bytes does not fit into its message");
    }
    ByteBuffer utf8 = in.slice(in.position(), bytes);
    in.position(in.position() + bytes);
    try {
      CharBuffer text = StandardCharsets.UTF_8.newDecoder().decode(utf8);
      return text.toString();
    } catch (CharacterCodingException e) {
      throw new FrameException("a text of a member is no UTF-8");
    }
  }
}

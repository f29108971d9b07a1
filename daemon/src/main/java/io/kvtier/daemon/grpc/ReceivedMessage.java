package io.kvtier.daemon.grpc;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A gRPC message in the pieces in which it came: nothing is copied to put them together, but pieces
 * so small that each would take more than its bytes.
 */
final class ReceivedMessage {
  private static final int SMALL_BYTES_MAX = 1 << 10;
  private static final int GATHERED_BYTES = 4 << 10;

  /** So many pieces may be as small as they like. */
  private static final int LOOSE_MAX = 16;

  private final List<ByteBuffer> pieces = new ArrayList<>();
  private final int length;
  private int missing;

  /**
   * Small pieces that follow each other, which are the last one together; filled to its position.
   */
  private @Nullable ByteBuffer gathered;

  /** A message of which nothing has come yet. */
  ReceivedMessage(int length) {
    this.length = length;
    this.missing = length;
  }

  int length() {
    return length;
  }

  boolean isWhole() {
    return missing == 0;
  }

  /**
   * Takes what belongs to this message off the front of some bytes; large ones are kept, not
   * copied.
   */
  void takeFrom(ByteBuffer bytes) {
    int taken = Math.min(missing, bytes.remaining());
    if (taken > 0) {
      ByteBuffer piece = bytes.slice(bytes.position(), taken);
      bytes.position(bytes.position() + taken);
      if (taken <= SMALL_BYTES_MAX && pieces.size() >= LOOSE_MAX) {
        gather(piece);
      } else {
        gathered = null;
        pieces.add(piece);
      }
      missing -= taken;
    }
  }

  private void gather(ByteBuffer piece) {
    ByteBuffer open = gathered;
    if (open == null || open.remaining() < piece.remaining()) {
      open = ByteBuffer.allocate(Math.min(GATHERED_BYTES, Math.max(missing, piece.remaining())));
      gathered = open;
      pieces.add(open);
    }
    open.put(piece);
    pieces.set(pieces.size() - 1, open.duplicate().flip());
  }

  int pieces() {
    return pieces.size();
  }

  /** A piece, to be read by absolute positions only. */
  ByteBuffer piece(int i) {
    return pieces.get(i);
  }

  /** All the bytes in one buffer. */
  ByteBuffer whole() {
    if (pieces.size() == 1) {
      return pieces.getFirst().duplicate();
    }
    ByteBuffer whole = ByteBuffer.allocate(length);
    for (ByteBuffer piece : pieces) {
      whole.put(piece.duplicate());
    }
    return whole.flip();
  }

  /** Copies a range into memory. */
  void copy(Range range, MemorySegment to, long offset, CRC32C crc) {
    int piece = range.piece;
    int from = range.from;
    int left = range.length;
    long at = offset;
    while (left > 0) {
      ByteBuffer source = pieces.get(piece);
      int bytes = Math.min(left, source.limit() - from);
      ByteBuffer part = source.slice(from, bytes);
      MemorySegment.copy(MemorySegment.ofBuffer(part), 0, to, at, bytes);
      crc.update(part);
      at += bytes;
      left -= bytes;
      piece++;
      from = 0;
    }
  }

  /** Some of a message's bytes: from a place in one piece on, into those after it. */
  record Range(int piece, int from, int length) {
    static final Range EMPTY = new Range(0, 0, 0);
  }
}

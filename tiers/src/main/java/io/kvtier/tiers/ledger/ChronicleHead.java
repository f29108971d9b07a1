package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;

/**
 * The beginning of a Chronicle map's file, which never changes: u64 checksum, u32 length, and a
 * text of that length. Chronicle would wait most of a minute for another process to mend a damaged
 * one.
 */
final class ChronicleHead {
  private static final int LENGTH_OFFSET = 8;
  private static final int TEXT_OFFSET = 12;
  private static final int BYTES_MAX = 1 << 16;

  private ChronicleHead() {}

  /** The length of the head of a new file. */
  static int bytes(Path file) throws IOException {
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
      ByteBuffer length = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      int _ = channel.read(length, LENGTH_OFFSET);
      int bytes = TEXT_OFFSET + length.getInt(0);
      if (bytes <= TEXT_OFFSET || bytes > BYTES_MAX) {
        throw new IOException(
            "the head of a new Chronicle map, '"
                + file
                + "', has "
                + bytes
                + " bytes; expected at most "
                + BYTES_MAX);
      }
      return bytes;
    }
  }

  /** Whether the head of a file is as it was made. */
  static boolean isIntact(Path file, int bytes, int checksum) throws IOException {
    return bytes > TEXT_OFFSET && bytes <= BYTES_MAX && checksum(file, bytes) == checksum;
  }

  /** The checksum of the first bytes of a file, or of all its bytes where there are fewer. */
  static int checksum(Path file, int bytes) throws IOException {
    ByteBuffer head = ByteBuffer.allocate(bytes);
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
      while (head.hasRemaining() && channel.read(head, head.position()) > 0) {
        // Until the buffer is full, or the file ends.
      }
    }
    CRC32C crc = new CRC32C();
    crc.update(head.flip());
    return (int) crc.getValue();
  }
}

package io.kvtier.tiers.ledger;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;
import static java.nio.file.StandardCopyOption.REPLACE_EXISTING;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;

/**
 * The few things beside the rows, in a small file that is replaced as a whole: the layout, the
 * namespaces, for how many places the ledger is made, and how the file with the rows begins.
 * Big-endian; a text is its length and UTF-8.
 *
 * <pre>
 *   u32 CRC32C of the rest    u32 version    u64 places
 *   u32 bytes of the head, 0 where none is known    u32 CRC32C of the head
 *   text layout    u32 namespaces    each: u32 id, 16 bytes fingerprint, text
 * </pre>
 */
final class LedgerNames {
  private static final int VERSION = 2;

  /** A namespace's fingerprint and text. */
  static final class Namespace {
    final byte[] fingerprint;
    final String text;

    Namespace(byte[] fingerprint, String text) {
      this.fingerprint = fingerprint;
      this.text = text;
    }
  }

  final Map<Integer, Namespace> namespaces = new TreeMap<>();
  String layout = "";
  long places;

  /** What never changes at the beginning of the file with the rows: how long, and its CRC32C. */
  int headBytes;

  int headChecksum;

  /**
   * Reads a file.
   *
   * @throws IOException when it can't be read, or is damaged
   */
  static LedgerNames read(Path file) throws IOException {
    return of(Files.readAllBytes(file), "'" + file + "'");
  }

  /**
   * Reads what {@link #bytes} made.
   *
   * @param where for the error
   * @throws IOException when the bytes are damaged
   */
  static LedgerNames of(byte[] encoded, String where) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(encoded);
    try {
      int checksum = bytes.getInt();
      if (checksum != checksum(bytes) || bytes.getInt() != VERSION) {
        throw new IOException(where + " is damaged, or of another version");
      }
      LedgerNames names = new LedgerNames();
      names.places = bytes.getLong();
      names.headBytes = bytes.getInt();
      names.headChecksum = bytes.getInt();
      names.layout = getText(bytes);
      int count = bytes.getInt();
      for (int i = 0; i < count; i++) {
        int id = bytes.getInt();
        byte[] fingerprint = new byte[Ledger.FINGERPRINT_BYTES];
        bytes.get(fingerprint);
        names.namespaces.put(id, new Namespace(fingerprint, getText(bytes)));
      }
      return names;
    } catch (BufferUnderflowException e) {
      throw new IOException(where + " is cut off", e);
    }
  }

  /** All of it, as {@link #of} reads it. */
  byte[] bytes() {
    int size = 4 + 4 + 8 + 4 + 4 + 4 + layout.getBytes(UTF_8).length + 4;
    for (Namespace namespace : namespaces.values()) {
      size += 4 + Ledger.FINGERPRINT_BYTES + 4 + namespace.text.getBytes(UTF_8).length;
    }
    ByteBuffer bytes = ByteBuffer.allocate(size).putInt(0).putInt(VERSION).putLong(places);
    bytes.putInt(headBytes).putInt(headChecksum);
    putText(bytes, layout);
    bytes.putInt(namespaces.size());
    namespaces.forEach((id, namespace) -> {
      bytes.putInt(id).put(namespace.fingerprint);
      putText(bytes, namespace.text);
    });
    bytes.position(4);
    return bytes.putInt(0, checksum(bytes)).array();
  }

  /** Replaces the file, so that a process that ends meanwhile leaves the old one or the new one. */
  void write(Path file, boolean sync) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(bytes());
    Path next = file.resolveSibling(file.getFileName() + ".next");
    try (FileChannel channel =
        FileChannel.open(
            next,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      while (bytes.hasRemaining()) {
        channel.write(bytes);
      }
      if (sync) {
        channel.force(true);
      }
    }
    Files.move(next, file, ATOMIC_MOVE, REPLACE_EXISTING);
  }

  private static int checksum(ByteBuffer rest) {
    CRC32C crc = new CRC32C();
    crc.update(rest.duplicate());
    return (int) crc.getValue();
  }

  private static void putText(ByteBuffer bytes, String text) {
    byte[] encoded = text.getBytes(UTF_8);
    bytes.putInt(encoded.length).put(encoded);
  }

  private static String getText(ByteBuffer bytes) {
    int length = bytes.getInt();
    if (length < 0 || length > bytes.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] encoded = new byte[length];
    bytes.get(encoded);
    return new String(encoded, UTF_8);
  }
}

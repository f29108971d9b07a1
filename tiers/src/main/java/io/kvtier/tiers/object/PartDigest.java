package io.kvtier.tiers.object;

import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * The CRC32C of one of the parts that a get fills, made as its bytes arrive: they are in the
 * processor's cache then, and need not be read again. For one call; its store brings the bytes in
 * order, from one thread at a time, and before the call ends.
 */
final class PartDigest {
  private final int part;
  private final CRC32C crc = new CRC32C();
  private long bytes;

  PartDigest(int part) {
    this.part = part;
  }

  /** Bytes that go into a part, behind those that it has. */
  void add(int filled, ByteBuffer more) {
    if (filled == part) {
      bytes += more.remaining();
      crc.update(more);
    }
  }

  /** How many it has seen: none where the store does not tell. */
  long bytes() {
    return bytes;
  }

  int checksum() {
    return (int) crc.getValue();
  }
}

package io.kvtier.tiers.ledger;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/** One row's bytes, and the way from and to an entry. Allocates nothing once made. */
final class LedgerRow {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

  /** As {@link LedgerEntryDescriptor} has them. */
  final byte[] bytes = new byte[LedgerEntryDescriptor.ROW_BYTES];

  private final CRC32C crc = new CRC32C();

  /** Fills the bytes. */
  void encode(long place, LedgerEntry entry) {
    if (entry.keyBytes < 0 || entry.keyBytes > LedgerEntry.KEY_BYTES_MAX) {
      throw new IllegalArgumentException(
          "a key has 0 to " + LedgerEntry.KEY_BYTES_MAX + " bytes, not " + entry.keyBytes);
    }
    bytes[LedgerEntryDescriptor.VERSION_OFFSET] = LedgerEntryDescriptor.VERSION;
    bytes[LedgerEntryDescriptor.KEY_BYTES_OFFSET] = (byte) entry.keyBytes;
    bytes[LedgerEntryDescriptor.ZERO_OFFSET] = 0;
    bytes[LedgerEntryDescriptor.ZERO_OFFSET + 1] = 0;
    putInt(LedgerEntryDescriptor.GROUP_OFFSET, entry.group);
    System.arraycopy(
        entry.key, 0, bytes, LedgerEntryDescriptor.KEY_OFFSET, LedgerEntry.KEY_BYTES_MAX);
    putLong(LedgerEntryDescriptor.NAMESPACE_HIGH_OFFSET, entry.namespaceHigh);
    putLong(LedgerEntryDescriptor.NAMESPACE_LOW_OFFSET, entry.namespaceLow);
    putLong(LedgerEntryDescriptor.GENERATION_OFFSET, entry.generation);
    putLong(LedgerEntryDescriptor.PARENT_OFFSET, entry.parent);
    putInt(LedgerEntryDescriptor.DEPTH_OFFSET, entry.depth);
    putInt(LedgerEntryDescriptor.LENGTH_OFFSET, entry.length);
    putInt(LedgerEntryDescriptor.CHECKSUM_OFFSET, entry.checksum);
    putInt(LedgerEntryDescriptor.PLACE_LOW_OFFSET, (int) place);
    putInt(LedgerEntryDescriptor.PLACE_HIGH_OFFSET, (int) (place >>> 32));
    putInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET, rowChecksum());
  }

  /** Fills the entry from the bytes; false, and the entry is void, where they don't verify. */
  boolean decode(long place, LedgerEntry entry) {
    int keyBytes = bytes[LedgerEntryDescriptor.KEY_BYTES_OFFSET];
    if (bytes[LedgerEntryDescriptor.VERSION_OFFSET] != LedgerEntryDescriptor.VERSION
        || keyBytes < 0
        || keyBytes > LedgerEntry.KEY_BYTES_MAX
        || getInt(LedgerEntryDescriptor.PLACE_LOW_OFFSET) != (int) place
        || getInt(LedgerEntryDescriptor.PLACE_HIGH_OFFSET) != (int) (place >>> 32)
        || getInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET) != rowChecksum()) {
      return false;
    }
    entry.keyBytes = keyBytes;
    entry.group = getInt(LedgerEntryDescriptor.GROUP_OFFSET);
    System.arraycopy(
        bytes, LedgerEntryDescriptor.KEY_OFFSET, entry.key, 0, LedgerEntry.KEY_BYTES_MAX);
    entry.namespaceHigh = getLong(LedgerEntryDescriptor.NAMESPACE_HIGH_OFFSET);
    entry.namespaceLow = getLong(LedgerEntryDescriptor.NAMESPACE_LOW_OFFSET);
    entry.generation = getLong(LedgerEntryDescriptor.GENERATION_OFFSET);
    entry.parent = getLong(LedgerEntryDescriptor.PARENT_OFFSET);
    entry.depth = getInt(LedgerEntryDescriptor.DEPTH_OFFSET);
    entry.length = getInt(LedgerEntryDescriptor.LENGTH_OFFSET);
    entry.checksum = getInt(LedgerEntryDescriptor.CHECKSUM_OFFSET);
    return true;
  }

  private int rowChecksum() {
    crc.reset();
    crc.update(bytes, 0, LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET);
    return (int) crc.getValue();
  }

  private void putLong(int offset, long value) {
    LONG.set(bytes, offset, value);
  }

  private long getLong(int offset) {
    return (long) LONG.get(bytes, offset);
  }

  private void putInt(int offset, int value) {
    INT.set(bytes, offset, value);
  }

  private int getInt(int offset) {
    return (int) INT.get(bytes, offset);
  }
}

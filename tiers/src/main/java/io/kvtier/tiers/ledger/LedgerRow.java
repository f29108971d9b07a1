package io.kvtier.tiers.ledger;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/**
 * One row's bytes without its annotation, and the way from and to an entry. Allocates nothing once
 * made.
 */
final class LedgerRow {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle SHORT =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

  /** As {@link LedgerEntryDescriptor} has them. */
  final byte[] bytes = new byte[LedgerEntryDescriptor.ROW_BYTES];

  private final CRC32C crc = new CRC32C();

  /** Fills the bytes; the entry's annotation is to be written with them. */
  void encode(long place, LedgerEntry entry) {
    if (entry.annotationBytes < 0 || entry.annotationBytes > LedgerEntry.ANNOTATION_BYTES_MAX) {
      throw new IllegalArgumentException(
          "an annotation has 0 to "
              + LedgerEntry.ANNOTATION_BYTES_MAX
              + " bytes, not "
              + entry.annotationBytes);
    }
    encode(place, entry, entry.annotationBytes);
  }

  /** Fills the bytes for a ledger that keeps no annotations. */
  void encodePlain(long place, LedgerEntry entry) {
    encode(place, entry, 0);
  }

  private void encode(long place, LedgerEntry entry, int annotationBytes) {
    if (entry.keyBytes < 0 || entry.keyBytes > LedgerEntry.KEY_BYTES_MAX) {
      throw new IllegalArgumentException(
          "a key has 0 to " + LedgerEntry.KEY_BYTES_MAX + " bytes, not " + entry.keyBytes);
    }
    bytes[LedgerEntryDescriptor.VERSION_OFFSET] =
        (byte)
            (annotationBytes == 0
                ? LedgerEntryDescriptor.VERSION
                : LedgerEntryDescriptor.VERSION_ANNOTATED);
    bytes[LedgerEntryDescriptor.KEY_BYTES_OFFSET] = (byte) entry.keyBytes;
    SHORT.set(bytes, LedgerEntryDescriptor.ANNOTATION_BYTES_OFFSET, (short) annotationBytes);
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
    putInt(
        LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET, rowChecksum(entry.annotation, annotationBytes));
  }

  /** How long the annotation is that belongs to the bytes; they may be damaged, and lie. */
  int annotationBytes() {
    return bytes[LedgerEntryDescriptor.VERSION_OFFSET] == LedgerEntryDescriptor.VERSION_ANNOTATED
        ? Short.toUnsignedInt(
            (short) SHORT.get(bytes, LedgerEntryDescriptor.ANNOTATION_BYTES_OFFSET))
        : 0;
  }

  /**
   * Fills the entry from the bytes; false, and the entry is void, where they don't verify.
   *
   * @param entry has the annotation already, of {@link #annotationBytes}
   */
  boolean decode(long place, LedgerEntry entry) {
    int keyBytes = bytes[LedgerEntryDescriptor.KEY_BYTES_OFFSET];
    int version = bytes[LedgerEntryDescriptor.VERSION_OFFSET];
    if ((version != LedgerEntryDescriptor.VERSION
            && version != LedgerEntryDescriptor.VERSION_ANNOTATED)
        || entry.annotationBytes != annotationBytes()
        || keyBytes < 0
        || keyBytes > LedgerEntry.KEY_BYTES_MAX
        || getInt(LedgerEntryDescriptor.PLACE_LOW_OFFSET) != (int) place
        || getInt(LedgerEntryDescriptor.PLACE_HIGH_OFFSET) != (int) (place >>> 32)
        || getInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET)
            != rowChecksum(entry.annotation, entry.annotationBytes)) {
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

  /** Makes the bytes those of the row before it got its annotation, but for their checksum. */
  void takeAnnotationBack() {
    bytes[LedgerEntryDescriptor.VERSION_OFFSET] = (byte) LedgerEntryDescriptor.VERSION;
    SHORT.set(bytes, LedgerEntryDescriptor.ANNOTATION_BYTES_OFFSET, (short) 0);
  }

  private int rowChecksum(byte[] annotation, int annotationBytes) {
    crc.reset();
    crc.update(bytes, 0, LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET);
    crc.update(annotation, 0, annotationBytes);
    return (int) crc.getValue();
  }

  private void putLong(int offset, long value) {
    LONG.set(bytes, offset, value);
  }

  long getLong(int offset) {
    return (long) LONG.get(bytes, offset);
  }

  private void putInt(int offset, int value) {
    INT.set(bytes, offset, value);
  }

  int getInt(int offset) {
    return (int) INT.get(bytes, offset);
  }
}

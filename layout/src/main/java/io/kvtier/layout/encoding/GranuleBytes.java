package io.kvtier.layout.encoding;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/** Little-endian numbers in the bytes of a granule, and their checksum. */
final class GranuleBytes {
  private static final VarHandle SHORT =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

  private GranuleBytes() {}

  /** The bits of an element of a raw granule. */
  static int element(byte[] raw, int index) {
    return halfWord(raw, index * GranuleShape.ELEMENT_BYTES);
  }

  static void setElement(byte[] raw, int index, int bits) {
    setHalfWord(raw, index * GranuleShape.ELEMENT_BYTES, bits);
  }

  static int halfWord(byte[] bytes, int offset) {
    return (short) SHORT.get(bytes, offset) & 0xffff;
  }

  static void setHalfWord(byte[] bytes, int offset, int value) {
    SHORT.set(bytes, offset, (short) value);
  }

  static int word(byte[] bytes, int offset) {
    return (int) INT.get(bytes, offset);
  }

  static void setWord(byte[] bytes, int offset, int value) {
    INT.set(bytes, offset, value);
  }

  static int crc32c(byte[] bytes) {
    CRC32C crc = new CRC32C();
    crc.update(bytes);
    return (int) crc.getValue();
  }
}

package io.kvtier.client;

import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Records;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;

/**
 * Block keys of equal length in prefix order, packed as a request carries them: {@code
 * [count][stride]}, the stride being the key's length rounded up to 8 bytes, the rest zero.
 * Immutable but for the memory that {@link #wrap} was given, which the caller must not change while
 * an operation runs.
 */
public final class Keys {
  private final MemorySegment packed;
  private final int keyBytes;
  private final int count;

  private Keys(MemorySegment packed, int keyBytes, int count) {
    this.packed = packed;
    this.keyBytes = keyBytes;
    this.count = count;
  }

  /** Packs keys of equal length, each of 1 to {@value Protocol#KEY_BYTES_MAX} bytes. */
  public static Keys of(byte[]... keys) {
    return of(Arrays.asList(Objects.requireNonNull(keys, "keys is null")));
  }

  /** Packs keys of equal length, each of 1 to {@value Protocol#KEY_BYTES_MAX} bytes. */
  public static Keys of(List<byte[]> keys) {
    Objects.requireNonNull(keys, "keys is null");
    if (keys.isEmpty()) {
      return new Keys(MemorySegment.ofArray(new byte[0]), Protocol.KEY_BYTES_MAX, 0);
    }
    int keyBytes = checkLength(Objects.requireNonNull(keys.getFirst(), "key 0 is null").length);
    int stride = Records.keyStride(keyBytes);
    byte[] bytes = new byte[Math.multiplyExact(keys.size(), stride)];
    for (int i = 0; i < keys.size(); i++) {
      byte[] key = keys.get(i);
      if (key == null) {
        throw new NullPointerException("key " + i + " is null");
      }
      if (key.length != keyBytes) {
        throw new IllegalArgumentException(
            "key "
                + i
                + " has "
                + key.length
                + " bytes, the first has "
                + keyBytes
                + ": one batch, one length");
      }
      System.arraycopy(key, 0, bytes, i * stride, keyBytes);
    }
    return new Keys(MemorySegment.ofArray(bytes), keyBytes, keys.size());
  }

  /**
   * Keys that stand one after the other in memory. Where their length is a multiple of 8 nothing is
   * copied.
   *
   * @param concatenated a whole number of keys
   */
  public static Keys wrap(MemorySegment concatenated, int keyBytes) {
    Objects.requireNonNull(concatenated, "the memory of the keys is null");
    checkLength(keyBytes);
    if (concatenated.byteSize() % keyBytes != 0) {
      throw new IllegalArgumentException(
          concatenated.byteSize()
              + " bytes are not a whole number of keys of "
              + keyBytes
              + " bytes");
    }
    int count = Math.toIntExact(concatenated.byteSize() / keyBytes);
    int stride = Records.keyStride(keyBytes);
    if (stride == keyBytes) {
      return new Keys(concatenated.asReadOnly(), keyBytes, count);
    }
    MemorySegment packed = MemorySegment.ofArray(new byte[Math.multiplyExact(count, stride)]);
    for (int i = 0; i < count; i++) {
      MemorySegment.copy(concatenated, (long) i * keyBytes, packed, (long) i * stride, keyBytes);
    }
    return new Keys(packed, keyBytes, count);
  }

  private static int checkLength(int keyBytes) {
    if (keyBytes < 1 || keyBytes > Protocol.KEY_BYTES_MAX) {
      throw new IllegalArgumentException(
          "a key has 1 to " + Protocol.KEY_BYTES_MAX + " bytes, not " + keyBytes);
    }
    return keyBytes;
  }

  /** How many keys. */
  public int count() {
    return count;
  }

  public boolean isEmpty() {
    return count == 0;
  }

  /** The length of each key. */
  public int keyBytes() {
    return keyBytes;
  }

  /** A copy of one key. */
  public byte[] get(int index) {
    checkIndex(index);
    byte[] key = new byte[keyBytes];
    MemorySegment.copy(packed, ValueLayout.JAVA_BYTE, (long) index * stride(), key, 0, keyBytes);
    return key;
  }

  /** A view of the keys from {@code from} up to {@code to}; nothing is copied. */
  public Keys slice(int from, int to) {
    if (from < 0 || to < from || to > count) {
      throw new IndexOutOfBoundsException("keys " + from + " to " + to + " of " + count);
    }
    return from == 0 && to == count
        ? this
        : new Keys(
            packed.asSlice((long) from * stride(), (long) (to - from) * stride()),
            keyBytes,
            to - from);
  }

  /** The bytes from one key to the next as a request carries them: a multiple of 8. */
  public int stride() {
    return Records.keyStride(keyBytes);
  }

  /**
   * Copies keys as a request carries them, each padded to {@link #stride}.
   *
   * @param from the first of the keys
   * @param keys how many
   * @param offset where the copy begins in the target
   */
  public void copyTo(int from, int keys, MemorySegment target, long offset) {
    MemorySegment.copy(packed, (long) from * stride(), target, offset, (long) keys * stride());
  }

  private void checkIndex(int index) {
    if (index < 0 || index >= count) {
      throw new IndexOutOfBoundsException("key " + index + " of " + count);
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Keys keys
        && keys.keyBytes == keyBytes
        && keys.count == count
        && packed.mismatch(keys.packed) < 0;
  }

  @Override
  public int hashCode() {
    int hash = keyBytes;
    for (long at = 0; at < packed.byteSize(); at += 8) {
      hash = 31 * hash + Long.hashCode(packed.get(ValueLayout.JAVA_LONG_UNALIGNED, at));
    }
    return hash;
  }

  @Override
  public String toString() {
    return count == 0
        ? "no keys"
        : count
            + " keys from "
            + HexFormat.of().formatHex(get(0))
            + " to "
            + HexFormat.of().formatHex(get(count - 1));
  }
}

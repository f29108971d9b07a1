package io.kvtier.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.math.BigInteger;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Writes canonical CBOR (RFC 8949, section 4.2.1: everything as short as possible) of null,
 * booleans, integers, floats, text, bytes, and lists of these. Reusable. Confined to one thread.
 */
final class Cbor {
  private static final int UNSIGNED = 0;
  private static final int NEGATIVE = 1;
  private static final int BYTES = 2;
  private static final int TEXT = 3;
  private static final int ARRAY = 4;
  private static final int TAG = 6;
  private static final int TAG_POSITIVE_BIGNUM = 2;
  private static final int TAG_NEGATIVE_BIGNUM = 3;

  private byte[] out = new byte[1024];
  private int length;

  /** Forgets what was written. */
  Cbor reset() {
    length = 0;
    return this;
  }

  byte[] buffer() {
    return out;
  }

  int length() {
    return length;
  }

  byte[] toByteArray() {
    return Arrays.copyOf(out, length);
  }

  Cbor array(int items) {
    return head(ARRAY, items);
  }

  Cbor bytes(byte[] value) {
    head(BYTES, value.length);
    room(value.length);
    System.arraycopy(value, 0, out, length, value.length);
    length += value.length;
    return this;
  }

  /** An integer of 64 bits without a sign. */
  Cbor unsigned(long value) {
    return head(UNSIGNED, value);
  }

  Cbor text(String value) {
    byte[] utf8 = value.getBytes(UTF_8);
    head(TEXT, utf8.length);
    room(utf8.length);
    System.arraycopy(utf8, 0, out, length, utf8.length);
    length += utf8.length;
    return this;
  }

  /**
   * Any value that has a canonical form here.
   *
   * @throws IllegalArgumentException for any other type
   */
  Cbor value(@Nullable Object value) {
    switch (value) {
      case null -> one(0xf6);
      case Boolean truth -> one(truth ? 0xf5 : 0xf4);
      case Long number -> integer(number);
      case Integer number -> integer(number);
      case Short number -> integer(number);
      case Byte number -> integer(number);
      case BigInteger number -> integer(number);
      case Double number -> floating(number);
      case Float number -> floating(number);
      case String string -> text(string);
      case byte[] some -> bytes(some);
      case List<?> items -> {
        array(items.size());
        for (Object item : items) {
          value(item);
        }
      }
      default ->
          throw new IllegalArgumentException(
              value.getClass().getName() + " has no canonical CBOR here");
    }
    return this;
  }

  private void integer(long value) {
    // -1 - value is the complement.
    head(value >= 0 ? UNSIGNED : NEGATIVE, value >= 0 ? value : ~value);
  }

  private void integer(BigInteger value) {
    boolean negative = value.signum() < 0;
    BigInteger magnitude = negative ? value.not() : value;
    if (magnitude.bitLength() <= 64) {
      head(negative ? NEGATIVE : UNSIGNED, magnitude.longValue());
      return;
    }
    head(TAG, negative ? TAG_NEGATIVE_BIGNUM : TAG_POSITIVE_BIGNUM);
    byte[] digits = magnitude.toByteArray();
    bytes(digits[0] == 0 ? Arrays.copyOfRange(digits, 1, digits.length) : digits);
  }

  private void floating(double value) {
    float single = (float) value;
    if (Double.isNaN(value)) {
      one(0xf9);
      bigEndian(0x7e00, 2);
    } else if (single != value) {
      one(0xfb);
      bigEndian(Double.doubleToRawLongBits(value), 8);
    } else if (Float.float16ToFloat(Float.floatToFloat16(single)) == single) {
      one(0xf9);
      bigEndian(Float.floatToFloat16(single), 2);
    } else {
      one(0xfa);
      bigEndian(Float.floatToRawIntBits(single), 4);
    }
  }

  private Cbor head(int major, long argument) {
    int first = major << 5;
    if (Long.compareUnsigned(argument, 24) < 0) {
      return one(first | (int) argument);
    }
    int bytes =
        Long.compareUnsigned(argument, 0xff) <= 0
            ? 1
            : Long.compareUnsigned(argument, 0xffff) <= 0
                ? 2
                : Long.compareUnsigned(argument, 0xffff_ffffL) <= 0 ? 4 : 8;
    one(first | (24 + Integer.numberOfTrailingZeros(bytes)));
    bigEndian(argument, bytes);
    return this;
  }

  private Cbor one(int value) {
    room(1);
    out[length++] = (byte) value;
    return this;
  }

  private void bigEndian(long value, int bytes) {
    room(bytes);
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
      out[length++] = (byte) (value >>> shift);
    }
  }

  private void room(int bytes) {
    if (out.length - length < bytes) {
      out = Arrays.copyOf(out, Math.max(out.length * 2, length + bytes));
    }
  }
}

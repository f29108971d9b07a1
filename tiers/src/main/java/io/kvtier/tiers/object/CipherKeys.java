package io.kvtier.tiers.object;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The keys of a node: the one that it writes with, and older ones that it still reads with. A key
 * is 32 bytes: as they are, as 64 hexadecimal digits, or in base64.
 */
public final class CipherKeys {
  private static final int HEX_DIGITS = 2 * CipherKey.BYTES;
  private static final int BASE64_DIGITS = 43;

  private final CipherKey writing;
  private final List<CipherKey> all;

  CipherKeys(CipherKey writing, List<CipherKey> alsoReading) {
    this.writing = writing;
    List<CipherKey> keys = new ArrayList<>(List.of(writing));
    keys.addAll(alsoReading);
    all = List.copyOf(keys);
  }

  /**
   * Reads all of them, once.
   *
   * @throws IOException naming the source, what is wrong with it and what to do
   */
  public static CipherKeys load(KeySource writing, List<KeySource> alsoReading) throws IOException {
    CipherKey first = key(writing);
    List<CipherKey> others = new ArrayList<>();
    for (KeySource source : alsoReading) {
      others.add(key(source));
    }
    return new CipherKeys(first, others);
  }

  private static CipherKey key(KeySource source) throws IOException {
    byte[] read = source.read();
    byte[] bytes = new byte[0];
    try {
      bytes = decode(read, source);
      requireRandom(bytes, source);
      return new CipherKey(bytes);
    } finally {
      Arrays.fill(read, (byte) 0);
      Arrays.fill(bytes, (byte) 0);
    }
  }

  private static byte[] decode(byte[] read, KeySource source) throws IOException {
    if (read.length == CipherKey.BYTES) {
      return read.clone();
    }
    if (read.length <= KeySource.BYTES_MAX) {
      String text = new String(read, StandardCharsets.ISO_8859_1).strip();
      try {
        if (text.length() == HEX_DIGITS) {
          return HexFormat.of().parseHex(text);
        }
        if (text.length() == BASE64_DIGITS
            || (text.length() == BASE64_DIGITS + 1 && text.endsWith("="))) {
          return Base64.getDecoder().decode(text);
        }
      } catch (IllegalArgumentException e) {
        // Not with its message, which has a part of the text.
      }
    }
    throw new IOException(
        source.describe()
            + " has "
            + (read.length > KeySource.BYTES_MAX ? "more than " + KeySource.BYTES_MAX : read.length)
            + " bytes that are no key: a key is 32 random bytes, or these as 64 hexadecimal digits"
            + " or in base64; make one with 'head -c 32 /dev/urandom'");
  }

  /** Refuses what somebody typed or zeroed: it would pass for 32 bytes. */
  private static void requireRandom(byte[] bytes, KeySource source) throws IOException {
    boolean isText = true;
    boolean isOneByte = true;
    for (byte b : bytes) {
      isText &= b == '\n' || (b >= ' ' && b <= '~');
      isOneByte &= b == bytes[0];
    }
    if (isText || isOneByte) {
      throw new IOException(
          source.describe()
              + (isOneByte ? " is the same byte again and again" : " holds 32 characters of text")
              + ", which is no key: a key is 32 random bytes; make one with"
              + " 'head -c 32 /dev/urandom'");
    }
  }

  CipherKey writing() {
    return writing;
  }

  /** The key that an object names; null when it is none of these. */
  @Nullable CipherKey byId(long id) {
    for (CipherKey key : all) {
      if (key.id == id) {
        return key;
      }
    }
    return null;
  }

  /** For people: their ids. */
  @Override
  public String toString() {
    return all.size() == 1
        ? "key " + writing
        : "key " + writing + " and to read with " + all.subList(1, all.size());
  }
}

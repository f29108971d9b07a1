package io.kvtier.tiers.object;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;

/** A key of 256 bits, and the short id by which objects name it. */
final class CipherKey {
  static final int BYTES = 32;

  /** The first 8 bytes of the key's SHA-256, the first one uppermost. */
  final long id;

  final SecretKey secret;

  /**
   * A key.
   *
   * @param bytes the key, which is the caller's to wipe
   */
  CipherKey(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException("a key has " + BYTES + " bytes, not " + bytes.length);
    }
    secret = new SecretKeySpec(bytes, "AES");
    id = id(bytes);
  }

  private static long id(byte[] bytes) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
      return HexFormat.fromHexDigitsToLong(
          HexFormat.of().formatHex(Arrays.copyOf(digest, Long.BYTES)));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** An id for people, as {@code sha256sum} prints its beginning. */
  static String text(long id) {
    return HexFormat.of().toHexDigits(id);
  }

  @Override
  public String toString() {
    return text(id);
  }
}

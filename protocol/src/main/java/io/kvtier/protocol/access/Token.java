package io.kvtier.protocol.access;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.HexFormat;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A bearer token: {@code kvt_ID_SECRET}, where the id names its line in the tokens file, and is no
 * secret, and the secret is 256 random bits. So a fast hash of it can't be guessed back, unlike
 * that of a password.
 */
public final class Token {
  private static final String PREFIX = "kvt_";
  private static final int ID_BYTES = 6;
  private static final int SECRET_BYTES = 32;
  static final int SALT_BYTES = 16;
  private static final int ID_CHARS = 2 * ID_BYTES;
  private static final Pattern SHAPE = Pattern.compile("kvt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}");
  private static final Pattern BEGINNING = Pattern.compile("kvt_[0-9a-f]{12}_");

  private final String text;

  private Token(String text) {
    this.text = text;
  }

  /** A fresh one. */
  public static Token make(SecureRandom random) {
    byte[] id = new byte[ID_BYTES];
    byte[] secret = new byte[SECRET_BYTES];
    random.nextBytes(id);
    random.nextBytes(secret);
    return new Token(
        PREFIX
            + HexFormat.of().formatHex(id)
            + "_"
            + Base64.getUrlEncoder().withoutPadding().encodeToString(secret));
  }

  /** Whether there is something in a text that looks like a token, whole or cut short. */
  static boolean isIn(String text) {
    return BEGINNING.matcher(text).find();
  }

  /** A token as its bearer sends it; null for what can't be one. */
  public static @Nullable Token of(String text) {
    if (!SHAPE.matcher(text).matches()) {
      return null;
    }
    return new Token(text);
  }

  /** The part that names its line. */
  public String id() {
    return text.substring(PREFIX.length(), PREFIX.length() + ID_CHARS);
  }

  /** All of it, for its bearer alone. */
  public String secretText() {
    return text;
  }

  static byte[] salt(SecureRandom random) {
    byte[] salt = new byte[SALT_BYTES];
    random.nextBytes(salt);
    return salt;
  }

  byte[] hash(byte[] salt) {
    try {
      MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
      sha256.update(salt);
      return sha256.digest(text.getBytes(StandardCharsets.US_ASCII));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** Names the token, and does not tell it: it may stand in a log. */
  @Override
  public String toString() {
    return PREFIX + id() + "_...";
  }
}

package io.kvtier.protocol.access;

import java.security.MessageDigest;
import java.security.SecureRandom;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A line of a tokens file: what a token's bearer may do, and the token's salted hash, from which it
 * can't be found. Words of {@code key=value}, in any order:
 *
 * <pre>
 *   id=4f1c09a2b3d7 name=prometheus role=read tenant=blue expires=2027-01-31T00:00:00Z sha256=SALT:HASH
 * </pre>
 *
 * @param name whose it is, for people
 * @param tenant whose blocks its bearer sees; empty for those of no tenant
 * @param expires from when on it is refused; null for never
 */
public record TokenLine(
    String id, String name, Role role, String tenant, @Nullable Instant expires, Salted salted) {
  /** What stays of a token's secret. Compared by {@link #isOf} alone, in constant time. */
  public static final class Salted {
    private static final int HASH_BYTES = 32;

    private final byte[] salt;
    private final byte[] hash;

    private Salted(byte[] salt, byte[] hash) {
      this.salt = salt;
      this.hash = hash;
    }

    private static Salted parse(String text) {
      int colon = text.indexOf(':');
      HexFormat hex = HexFormat.of();
      if (colon < 1) {
        throw new IllegalArgumentException();
      }
      Salted parsed =
          new Salted(hex.parseHex(text, 0, colon), hex.parseHex(text, colon + 1, text.length()));
      if (parsed.hash.length != HASH_BYTES || parsed.salt.length != Token.SALT_BYTES) {
        throw new IllegalArgumentException();
      }
      return parsed;
    }

    private boolean isOf(Token token) {
      return MessageDigest.isEqual(hash, token.hash(salt));
    }

    @Override
    public String toString() {
      return HexFormat.of().formatHex(salt) + ":" + HexFormat.of().formatHex(hash);
    }
  }

  private static final int SHOWN_MAX = 24;
  private static final String NAME_RULE = "[A-Za-z0-9][A-Za-z0-9._@-]{0,63}";

  /** What may stand for a name of a token or a tenant. */
  public static boolean isName(String text) {
    return text.matches(NAME_RULE);
  }

  /** The line of a token. */
  public static TokenLine of(
      Token token,
      String name,
      Role role,
      String tenant,
      @Nullable Instant expires,
      SecureRandom random) {
    byte[] salt = Token.salt(random);
    return new TokenLine(
        token.id(), name, role, tenant, expires, new Salted(salt, token.hash(salt)));
  }

  /**
   * Reads a line.
   *
   * @throws IllegalArgumentException with what is wrong with it, in words that tell no hash
   */
  public static TokenLine parse(String line) {
    if (Token.isIn(line)) {
      throw new IllegalArgumentException(
          "there is a token itself in this line, which has to have its salted hash only: make"
              + " another with kvtier token make, as this one has been written down");
    }
    Map<String, String> words = new HashMap<>();
    for (String word : line.strip().split("\\s+", -1)) {
      int equals = word.indexOf('=');
      if (equals < 1 || words.put(word.substring(0, equals), word.substring(equals + 1)) != null) {
        throw new IllegalArgumentException(
            "expected words id=, name=, role=, tenant=, expires= and sha256=, each once");
      }
    }
    String id = required(words, "id", "[0-9a-f]{12}", "12 hexadecimal digits");
    String name = required(words, "name", NAME_RULE, "letters, digits, '.', '_', '@' or '-'");
    String roleWord = required(words, "role", ".*", "");
    Role role = Role.ofWord(roleWord);
    if (role == null || role == Role.NONE) {
      throw new IllegalArgumentException(
          "role is " + shown(roleWord) + ", expected read, write or admin");
    }
    String tenant = words.getOrDefault("tenant", "");
    words.remove("tenant");
    if (!tenant.isEmpty() && !isName(tenant)) {
      throw new IllegalArgumentException(
          "tenant is " + shown(tenant) + ", expected a tenant's name");
    }
    Instant expires = expires(words.remove("expires"));
    String hash = required(words, "sha256", ".*", "");
    if (!words.isEmpty()) {
      throw new IllegalArgumentException(
          "unknown word " + shown(words.keySet().iterator().next() + "="));
    }
    try {
      return new TokenLine(id, name, role, tenant, expires, Salted.parse(hash));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "sha256 is no SALT:HASH in hexadecimal digits, as kvtier token makes it", e);
    }
  }

  private static String required(Map<String, String> words, String key, String rule, String what) {
    String value = words.remove(key);
    if (value == null) {
      throw new IllegalArgumentException("there is no " + key + "=");
    }
    if (!value.matches(rule)) {
      throw new IllegalArgumentException(key + " is " + shown(value) + ", expected " + what);
    }
    return value;
  }

  /** A word in the wrong place may be a secret, or a hash: only what is too short for that. */
  private static String shown(String text) {
    return text.length() <= SHOWN_MAX
        ? "'" + text + "'"
        : "something else of " + text.length() + " characters";
  }

  private static @Nullable Instant expires(@Nullable String text) {
    if (text == null || text.equals("never")) {
      return null;
    }
    try {
      return Instant.parse(text);
    } catch (DateTimeException e) {
      // Without the cause, whose message quotes the text.
      throw new IllegalArgumentException(
          "expires is " + shown(text) + ", expected a time such as 2027-01-31T00:00:00Z, or never");
    }
  }

  /** Whether this is that token's line, and its time is not over. */
  public boolean accepts(Token token, Instant now) {
    return salted.isOf(token) && (expires == null || now.isBefore(expires));
  }

  /** The line, as {@link #parse} reads it. */
  public String text() {
    return "id="
        + id
        + " name="
        + name
        + " role="
        + role.word()
        + (tenant.isEmpty() ? "" : " tenant=" + tenant)
        + " expires="
        + (expires == null ? "never" : expires)
        + " sha256="
        + salted;
  }
}

package io.kvtier.daemon.config;

import java.util.regex.Pattern;

/** What of a configuration, or of an environment, others may not read. */
public final class Secrets {
  /** What stands for a secret. */
  public static final String HIDDEN = "(hidden)";

  private static final Pattern NAMES =
      Pattern.compile("(?i).*(secret|token|password|passwd|credential|api_?key|access_key).*");

  /** {@code scheme://user:password@host}. */
  private static final Pattern USER_INFO =
      Pattern.compile("([A-Za-z][A-Za-z0-9+.-]*://)[^/@\\s]+@");

  /** A query of a signed address. */
  private static final Pattern SIGNATURES =
      Pattern.compile("(?i)([?&](?:x-amz-[a-z-]*|signature|token|key|secret|password)=)[^&\\s]+");

  private Secrets() {}

  /** A value without what is secret in it. */
  public static String hide(String key, String value) {
    if (value.isEmpty()) {
      return value;
    }
    if (key.endsWith("_file") || key.endsWith("_files")) {
      // Where a secret is kept is none.
      return value;
    }
    if (NAMES.matcher(key).matches() || key.endsWith("key_command")) {
      return value.equals("[]") ? value : HIDDEN;
    }
    return hideInText(value);
  }

  /** A text without the secrets of the addresses in it. */
  public static String hideInText(String text) {
    String plain = USER_INFO.matcher(text).replaceAll("$1" + HIDDEN + "@");
    return SIGNATURES.matcher(plain).replaceAll("$1" + HIDDEN);
  }
}

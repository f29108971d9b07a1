package io.kvtier.protocol;

import java.util.Set;
import java.util.regex.Pattern;

/**
 * What of a configuration, an environment or a log others may not read: shown values and reports
 * are without it, in the daemon and in the command.
 */
public final class Secrets {
  /** What stands for a secret. */
  public static final String HIDDEN = "(hidden)";

  private static final String NAMES =
      "[A-Za-z0-9_.-]*(?:secret|token|password|passwd|credential|api[_-]?key|access[_-]?key|private[_-]?key)"
          + "[A-Za-z0-9_-]*";

  /** Keys that only sound like secrets. */
  private static final Set<String> NO_SECRETS = Set.of("access.tokens", "access.without_token");

  private static final Pattern NAME = Pattern.compile("(?i)" + NAMES);

  /** {@code scheme://user:password@host}. */
  private static final Pattern USER_INFO =
      Pattern.compile("([A-Za-z][A-Za-z0-9+.-]*://)[^/@\\s\"']+@");

  /** The query of a signed address. */
  private static final Pattern SIGNATURE =
      Pattern.compile("(?i)([?&](?:x-amz-[a-z-]*|signature|sig|key)=)[^&\\s\"']+");

  /** {@code name=value}, {@code name: value}, {@code "name":"value"}, {@code --name value}. */
  private static final Pattern NAMED =
      Pattern.compile(
          "(?i)(?<![A-Za-z0-9])(" + NAMES + "[\"']?(?:\\s*[=:]\\s*|\\s+)[\"']?)([^\\s\"',;}\\]]+)");

  private static final Pattern AUTHORIZATION =
      Pattern.compile(
          "(?i)(authorization[\"']?\\s*[=:]\\s*[\"']?|\\bbearer\\s+|\\bbasic\\s+)\\S.*");

  /** The ids that AWS gives to its keys. */
  private static final Pattern AWS_ID = Pattern.compile("\\b(?:AKIA|ASIA)[A-Z0-9]{16}\\b");

  private static final Pattern PEM =
      Pattern.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----[\\s\\S]*?(?:-----END [A-Z ]*-----|\\z)");

  private Secrets() {}

  /** Whether what has such a name is a secret. */
  public static boolean isSecret(String name) {
    // Where a secret is kept is none.
    boolean isPlace = name.endsWith("_file") || name.endsWith("_files") || name.endsWith("_FILE");
    return !isPlace
        && !NO_SECRETS.contains(name)
        && (NAME.matcher(name).matches() || name.endsWith("key_command"));
  }

  /** A value without what is secret in it. */
  public static String hide(String name, String value) {
    if (value.isEmpty() || value.equals("[]")) {
      return value;
    }
    return isSecret(name) ? HIDDEN : hideAddresses(value);
  }

  private static String hideAddresses(String text) {
    String plain = USER_INFO.matcher(text).replaceAll("$1" + HIDDEN + "@");
    return SIGNATURE.matcher(plain).replaceAll("$1" + HIDDEN);
  }

  /** A text without what looks like a secret: rather too much is hidden than too little. */
  public static String hideInText(String text) {
    String plain = PEM.matcher(text).replaceAll(HIDDEN);
    plain = hideAddresses(plain);
    plain = AUTHORIZATION.matcher(plain).replaceAll("$1" + HIDDEN);
    plain = AWS_ID.matcher(plain).replaceAll(HIDDEN);
    return NAMED.matcher(plain).replaceAll("$1" + HIDDEN);
  }
}

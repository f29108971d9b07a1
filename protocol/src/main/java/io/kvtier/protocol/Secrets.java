package io.kvtier.protocol;

import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What of a configuration, an environment or a log others may not read: shown values, messages and
 * reports are without it, in the daemon and in the command.
 */
public final class Secrets {
  /** What stands for a secret. */
  public static final String HIDDEN = "(hidden)";

  private static final String WORDS =
      "(?:secret|token|password|passwd|credential|api[_-]?key|access[_-]?key|private[_-]?key"
          + "|key[._-]command)";

  /** Keys that only sound like secrets, as {@link #plain} writes them. */
  private static final Set<String> NO_SECRETS =
      Set.of("access_tokens", "access_without_token", "block_tokens");

  private static final Pattern NAME = Pattern.compile("(?i)[A-Za-z0-9_.-]*" + WORDS + "[\\w-]*");

  /** Names of where something is kept. */
  private static final Pattern PLACE = Pattern.compile(".*_files?");

  /** Keys and variables whose value is an address, be it a mistaken one. */
  private static final Pattern ADDRESS_NAME = Pattern.compile(".*(?:proxy|endpoint|ur[il])");

  /** {@code scheme://user:password@host}; whoever wrote the password may not have encoded it. */
  private static final Pattern USER_INFO =
      Pattern.compile("([A-Za-z][A-Za-z0-9+.-]*://)[^\\s\"']+@");

  /** The same where the text is one address, and where its scheme may be missing. */
  private static final Pattern ONE_USER_INFO =
      Pattern.compile("^([A-Za-z][A-Za-z0-9+.-]*://)?.+@", Pattern.DOTALL);

  /** The query of a signed address. */
  private static final Pattern SIGNATURE =
      Pattern.compile("(?i)([?&](?:x-amz-[a-z-]*|signature|sig|key)=)[^&\\s\"']+");

  /** {@code name=}, {@code name: }, {@code "name":}, {@code --name }, up to the value. */
  private static final Pattern NAMED =
      Pattern.compile(
          "(?i)(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]*"
              + WORDS
              + "[\\w-]*)(\\\\?[\"']?)([ \\t]*[=:][ \\t]*|[ \\t]+)");

  private static final Pattern AUTHORIZATION =
      Pattern.compile(
          "(?i)(authorization[\"']?\\s*[=:]\\s*[\"']?|\\bbearer\\s+|\\bbasic\\s+)\\S.*");

  /** The ids that AWS gives to its keys. */
  private static final Pattern AWS_ID = Pattern.compile("\\b(?:AKIA|ASIA)[A-Z0-9]{16}\\b");

  /** Our own tokens; the id names a line of a file, and is no secret. */
  private static final Pattern TOKEN = Pattern.compile("(kvt_[0-9a-f]{12}_)[A-Za-z0-9_-]+");

  private static final Pattern PEM =
      Pattern.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----[\\s\\S]*?(?:-----END [A-Z ]*-----|\\z)");

  private Secrets() {}

  /** Whether what has such a name is a secret: a key, its variable, or any other's. */
  public static boolean isSecret(String name) {
    String plain = plain(name);
    // Where a secret is kept is none.
    return !PLACE.matcher(plain).matches()
        && !NO_SECRETS.contains(plain)
        && NAME.matcher(name).matches();
  }

  /** {@code KVTIERD_ACCESS_TOKENS}, {@code access.tokens} and {@code AccessTokens} as one name. */
  private static String plain(String name) {
    return name.replaceAll("(?<=[a-z0-9])(?=[A-Z])", "_")
        .replaceAll("[.-]", "_")
        .toLowerCase(Locale.ROOT)
        .replaceFirst("^_+", "")
        .replaceFirst("^kvtierd_", "");
  }

  /** A value without what is secret in it. */
  public static String hide(String name, String value) {
    if (value.isEmpty() || value.equals("[]")) {
      return value;
    }
    if (isSecret(name)) {
      return HIDDEN;
    }
    return hideParts(
        ADDRESS_NAME.matcher(plain(name)).matches()
            ? ONE_USER_INFO
                .matcher(value)
                .replaceFirst(
                    found -> (found.group(1) == null ? "" : found.group(1)) + HIDDEN + "@")
            : value);
  }

  /** What is known by its look, whatever its name. */
  private static String hideParts(String text) {
    String plain = USER_INFO.matcher(text).replaceAll("$1" + HIDDEN + "@");
    plain = TOKEN.matcher(plain).replaceAll("$1" + HIDDEN);
    return SIGNATURE.matcher(plain).replaceAll("$1" + HIDDEN);
  }

  /** A text without what looks like a secret: rather too much is hidden than too little. */
  public static String hideInText(String text) {
    String plain = PEM.matcher(text).replaceAll(HIDDEN);
    plain = hideParts(plain);
    plain = AUTHORIZATION.matcher(plain).replaceAll("$1" + HIDDEN);
    plain = AWS_ID.matcher(plain).replaceAll(HIDDEN);
    return hideNamed(plain);
  }

  private static String hideNamed(String text) {
    StringBuilder shown = new StringBuilder();
    Matcher named = NAMED.matcher(text);
    int from = 0;
    int look = 0;
    while (named.find(look)) {
      look = named.end();
      if (!isSecret(named.group(1))) {
        continue;
      }
      int begin = quoted(text, named.end());
      int end = endOfValue(text, named, begin);
      if (end > begin && !text.startsWith(HIDDEN, begin)) {
        shown.append(text, from, begin).append(HIDDEN);
        from = end;
        look = end;
      }
    }
    return shown.append(text, from, text.length()).toString();
  }

  /** Behind the quote that a value begins with, if it does. */
  private static int quoted(String text, int at) {
    int quote = text.startsWith("\\", at) ? at + 1 : at;
    boolean isQuote =
        quote < text.length() && (text.charAt(quote) == '"' || text.charAt(quote) == '\'');
    return isQuote ? quote + 1 : at;
  }

  /**
   * Where the value ends that begins there: at its closing quote; in JSON at the next key;
   * otherwise at the line's end, as secrets have blanks and commas. Where no sign stands between
   * name and value, a value is one word, and only behind an option, or where it looks like no word
   * of a sentence.
   */
  private static int endOfValue(String text, Matcher named, int begin) {
    int newline = text.indexOf('\n', begin);
    int line = newline < 0 ? text.length() : newline;
    if (begin > named.end()) {
      String quote = text.substring(named.end(), begin);
      int close = text.indexOf(quote, begin);
      while (close > begin && quote.length() == 1 && text.charAt(close - 1) == '\\') {
        close = text.indexOf(quote, close + 1);
      }
      return close < 0 || close > line ? line : close;
    }
    String separator = named.group(3);
    if (separator.isBlank()) {
      int word = first(text, begin, line, " \t\"',;}]");
      boolean isValue =
          named.group(1).startsWith("-")
              || text.substring(begin, word).chars().anyMatch(Character::isDigit);
      return isValue ? first(text, begin, line, " \t") : begin;
    }
    return named.group(2).isEmpty() ? line : first(text, begin, line, " \t,}]");
  }

  private static int first(String text, int from, int end, String ends) {
    int at = from;
    while (at < end && ends.indexOf(text.charAt(at)) < 0) {
      at++;
    }
    return at;
  }
}

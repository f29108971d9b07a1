package io.kvtier.daemon.config;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Sizes and durations as people write them: {@code 512MiB}, {@code 4GiB}, {@code 250ms}, {@code
 * 30s}.
 */
public final class Units {
  private static final Pattern AMOUNT =
      Pattern.compile("\\s*([0-9]+(?:\\.[0-9]+)?)\\s*([A-Za-z]*)\\s*");

  private Units() {}

  /**
   * Bytes of a size. Units: B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of
   * 1000).
   */
  public static long bytes(String text) {
    Matcher amount = match(text, "a size such as 512MiB or 4GiB");
    double factor =
        switch (amount.group(2)) {
          case "", "B" -> 1;
          case "KiB" -> 1L << 10;
          case "MiB" -> 1L << 20;
          case "GiB" -> 1L << 30;
          case "TiB" -> 1L << 40;
          case "kB" -> 1e3;
          case "MB" -> 1e6;
          case "GB" -> 1e9;
          case "TB" -> 1e12;
          default ->
              throw new IllegalArgumentException(
                  "unknown unit '"
                      + amount.group(2)
                      + "' in '"
                      + text
                      + "'; expected B, KiB, MiB, GiB, TiB, kB, MB, GB or TB");
        };
    return (long) (Double.parseDouble(amount.group(1)) * factor);
  }

  /** Nanoseconds of a duration. Units: ns, us, ms, s, min, h. */
  public static long nanoseconds(String text) {
    Matcher amount = match(text, "a duration such as 250ms or 30s");
    double factor =
        switch (amount.group(2)) {
          case "ns" -> 1;
          case "us" -> 1e3;
          case "ms" -> 1e6;
          case "s" -> 1e9;
          case "min" -> 60e9;
          case "h" -> 3600e9;
          default ->
              throw new IllegalArgumentException(
                  "unknown unit '"
                      + amount.group(2)
                      + "' in '"
                      + text
                      + "'; expected ns, us, ms, s, min or h");
        };
    return (long) (Double.parseDouble(amount.group(1)) * factor);
  }

  private static Matcher match(String text, String expected) {
    Matcher amount = AMOUNT.matcher(text);
    if (!amount.matches()) {
      throw new IllegalArgumentException("'" + text + "' is not " + expected);
    }
    return amount;
  }

  /** A size for people. */
  public static String describeBytes(long bytes) {
    String[] units = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = bytes;
    int unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit++;
    }
    return String.format(
        Locale.ROOT, value == Math.rint(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
  }
}

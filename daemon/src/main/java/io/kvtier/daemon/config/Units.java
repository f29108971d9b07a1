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
   * Bytes of a size. Units: B, KiB, MiB, GiB, TiB; 0 needs none. Those of powers of 1000 are
   * refused: no size here is one, and who writes 1GB means 1GiB.
   *
   * @throws IllegalArgumentException with a hint, or without a message
   */
  public static long bytes(String text) {
    Matcher amount = match(text);
    String unit = amount.group(2);
    double number = Double.parseDouble(amount.group(1));
    if (unit.isEmpty() && number == 0) {
      return 0;
    }
    double factor =
        switch (unit) {
          case "B" -> 1;
          case "KiB" -> 1L << 10;
          case "MiB" -> 1L << 20;
          case "GiB" -> 1L << 30;
          case "TiB" -> 1L << 40;
          default ->
              throw unknownUnit(
                  amount,
                  "B, KiB, MiB, GiB and TiB",
                  switch (unit.isEmpty() ? 'B' : Character.toUpperCase(unit.charAt(0))) {
                    case 'B' -> "B";
                    case 'K' -> "KiB";
                    case 'M' -> "MiB";
                    case 'G' -> "GiB";
                    case 'T' -> "TiB";
                    default -> "";
                  });
        };
    return (long) (number * factor);
  }

  /**
   * Nanoseconds of a duration. Units: ns, us, ms, s, min, h.
   *
   * @throws IllegalArgumentException with a hint, or without a message
   */
  public static long nanoseconds(String text) {
    Matcher amount = match(text);
    String unit = amount.group(2);
    double factor =
        switch (unit) {
          case "ns" -> 1;
          case "us" -> 1e3;
          case "ms" -> 1e6;
          case "s" -> 1e9;
          case "min" -> 60e9;
          case "h" -> 3600e9;
          default ->
              throw unknownUnit(
                  amount,
                  "ns, us, ms, s, min and h",
                  switch (unit.toLowerCase(Locale.ROOT)) {
                    case "", "sec", "secs", "second", "seconds" -> "s";
                    case "m", "mins", "minute", "minutes" -> "min";
                    case "hour", "hours" -> "h";
                    case "msec", "millis" -> "ms";
                    default -> "";
                  });
        };
    return (long) (Double.parseDouble(amount.group(1)) * factor);
  }

  private static Matcher match(String text) {
    Matcher amount = AMOUNT.matcher(text);
    if (!amount.matches()) {
      throw new IllegalArgumentException();
    }
    return amount;
  }

  private static IllegalArgumentException unknownUnit(
      Matcher amount, String units, String meantUnit) {
    return new IllegalArgumentException(
        (amount.group(2).isEmpty() ? "it has no unit" : "unknown unit '" + amount.group(2) + "'")
            + ", the units are "
            + units
            + (meantUnit.isEmpty() ? "" : "; did you mean " + amount.group(1) + meantUnit + "?"));
  }

  /** A size as {@link #bytes} reads it, in the largest unit that says it whole. */
  static String formatBytes(long bytes) {
    String[] units = {"B", "KiB", "MiB", "GiB", "TiB"};
    long value = bytes;
    int unit = 0;
    while (value != 0 && value % 1024 == 0 && unit < units.length - 1) {
      value /= 1024;
      unit++;
    }
    return value + units[unit];
  }
}

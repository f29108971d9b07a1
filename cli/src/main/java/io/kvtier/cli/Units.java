package io.kvtier.cli;

import java.util.List;
import java.util.Locale;

/** Numbers as people read them. */
final class Units {
  private static final String[] BYTES = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

  private Units() {}

  /** {@code 1536} is 1.5 KiB. */
  static String bytes(long bytes) {
    double value = bytes;
    int unit = 0;
    while (value >= 1024 && unit < BYTES.length - 1) {
      value /= 1024;
      unit++;
    }
    return unit == 0
        ? bytes + " B"
        : String.format(Locale.ROOT, value < 10 ? "%.1f %s" : "%.0f %s", value, BYTES[unit]);
  }

  /**
   * Bytes of a size such as 64KiB.
   *
   * @throws IllegalArgumentException where the text is no size above 0, or has no unit
   */
  static long parseBytes(String text) {
    String number = text.strip().replaceFirst("[A-Za-z]*$", "").strip();
    int unit = List.of(BYTES).indexOf(text.strip().substring(number.length()).strip());
    double value = number.matches("[0-9]{1,15}(\\.[0-9]+)?") ? Double.parseDouble(number) : 0;
    if (unit < 0 || value <= 0) {
      throw new IllegalArgumentException(
          "'" + text + "', expected a size such as 64KiB, with the unit B, KiB, MiB or GiB");
    }
    return (long) (value * Math.pow(1024, unit));
  }

  /** Digits in groups of three. */
  static String count(long count) {
    return String.format(Locale.ROOT, "%,d", count);
  }

  /** {@code 1, "block"} is 1 block, and {@code 2000, "block"} is 2,000 blocks. */
  static String counted(long count, String noun) {
    return counted(count, noun, noun + "s");
  }

  /** A count with a noun whose plural is not the singular with an s. */
  static String counted(long count, String singular, String plural) {
    return count(count) + " " + (count == 1 ? singular : plural);
  }

  /** {@code 3720} is 1 h 2 min. */
  static String seconds(long seconds) {
    if (seconds < 60) {
      return seconds + " s";
    }
    if (seconds < 3600) {
      return seconds / 60 + " min " + seconds % 60 + " s";
    }
    return seconds < 86400
        ? seconds / 3600 + " h " + seconds % 3600 / 60 + " min"
        : seconds / 86400 + " d " + seconds % 86400 / 3600 + " h";
  }

  /** {@code 1500000} is 1.5 ms. */
  static String nanoseconds(long ns) {
    if (ns < 1000) {
      return ns + " ns";
    }
    String unit = ns < 1_000_000 ? "µs" : ns < 1_000_000_000 ? "ms" : "s";
    double value = ns / (ns < 1_000_000 ? 1e3 : ns < 1_000_000_000 ? 1e6 : 1e9);
    return String.format(Locale.ROOT, "%.1f %s", value, unit);
  }

  /** {@code 1500000} is 1.5 ms, and {@code 3720000000000} is 1 h 2 min. */
  static String duration(long ns) {
    return ns < 60_000_000_000L ? nanoseconds(ns) : seconds(ns / 1_000_000_000);
  }

  /** A part of a whole; a dash where there is no whole. */
  static String percent(long part, long whole) {
    return whole <= 0 ? "-" : String.format(Locale.ROOT, "%.0f %%", 100.0 * part / whole);
  }
}

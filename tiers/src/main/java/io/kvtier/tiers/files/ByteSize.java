package io.kvtier.tiers.files;

import java.util.Locale;

/** Sizes for people. */
public final class ByteSize {
  private static final String[] UNITS = {"B", "KiB", "MiB", "GiB", "TiB"};

  private ByteSize() {}

  /** A size in the largest unit of which there is one, such as {@code 1.5 GiB}. */
  public static String words(long bytes) {
    double value = bytes;
    int unit = 0;
    while (value >= 1024 && unit < UNITS.length - 1) {
      value /= 1024;
      unit++;
    }
    return String.format(
        Locale.ROOT, value == Math.rint(value) ? "%.0f %s" : "%.1f %s", value, UNITS[unit]);
  }
}

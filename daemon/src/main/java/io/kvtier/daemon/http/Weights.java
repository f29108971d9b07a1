package io.kvtier.daemon.http;

/** The weights of alternatives in headers of HTTP, such as {@code gzip;q=0.5}. */
final class Weights {
  private Weights() {}

  /** From 0 to 1; 1 where none is written, and 0 for one that is no number. */
  static double of(String alternative) {
    for (String parameter : alternative.split(";", -1)) {
      String text = parameter.strip();
      if (text.startsWith("q=")) {
        try {
          return Math.clamp(Double.parseDouble(text.substring(2)), 0, 1);
        } catch (NumberFormatException e) {
          return 0;
        }
      }
    }
    return 1;
  }
}

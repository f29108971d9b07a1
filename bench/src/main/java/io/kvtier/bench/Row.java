package io.kvtier.bench;

/**
 * One figure and what bounds it.
 *
 * @param value NaN where the thing could not be measured
 * @param limitName what the limit is, measured in the same run; why not, where there is no value;
 *     empty where there is no limit
 * @param limit NaN where there is none
 */
record Row(String name, double value, String unit, String limitName, double limit) {
  Row {
    if (name.isBlank() || unit.isBlank()) {
      throw new IllegalArgumentException(
          "a row has a name and a unit: '" + name + "', '" + unit + "'");
    }
  }

  /** A figure that stands for itself. */
  static Row plain(String name, double value, String unit) {
    return new Row(name, value, unit, "", Double.NaN);
  }

  /** A figure that could not be had. */
  static Row skipped(String name, String unit, String reason) {
    return new Row(name, Double.NaN, unit, "skipped: " + reason, Double.NaN);
  }

  /** The value as a multiple of the limit; NaN where one of them is missing. */
  double ratio() {
    return value / limit;
  }
}

package io.kvtier.daemon.http;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The formats that metrics are shown in; who asks chooses by an Accept header. */
enum MetricsFormat {
  PROMETHEUS("text/plain; version=0.0.4; charset=utf-8"),
  OPEN_METRICS("application/openmetrics-text; version=1.0.0; charset=utf-8");

  private final String type;

  MetricsFormat(String type) {
    this.type = type;
  }

  String type() {
    return type;
  }

  /**
   * OpenMetrics for those who name it and rank plain text no higher; Prometheus' text for others.
   */
  static MetricsFormat of(@Nullable String accept) {
    if (accept == null) {
      return PROMETHEUS;
    }
    double openMetrics = 0;
    double plain = 0;
    for (String each : accept.toLowerCase(Locale.ROOT).split(",", -1)) {
      String range = each.strip();
      if (range.startsWith("application/openmetrics-text")) {
        openMetrics = Math.max(openMetrics, Weights.of(range));
      } else if (range.startsWith("text/plain") || range.startsWith("text/*")) {
        plain = Math.max(plain, Weights.of(range));
      }
    }
    return openMetrics > 0 && openMetrics >= plain ? OPEN_METRICS : PROMETHEUS;
  }
}

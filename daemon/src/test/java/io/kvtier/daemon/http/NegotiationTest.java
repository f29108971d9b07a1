package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What callers get who name formats and encodings. */
final class NegotiationTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "application/openmetrics-text|OPEN_METRICS",
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4|OPEN_METRICS",
        "Application/OpenMetrics-Text; version=1.0.0, */*;q=0.1|OPEN_METRICS",
        "text/plain,application/openmetrics-text;q=0.5|PROMETHEUS",
        "application/openmetrics-text;q=0|PROMETHEUS",
        "application/openmetrics-text;q=nonsense|PROMETHEUS",
        "text/html, */*|PROMETHEUS",
      })
  void format_ofAnAcceptHeader_isTheOneRankedHigher(String accept, MetricsFormat expected) {
    assertEquals(expected, MetricsFormat.of(accept));
  }

  @Test
  void format_withoutAHeader_isPrometheus() {
    assertEquals(MetricsFormat.PROMETHEUS, MetricsFormat.of(null));
  }

  @ParameterizedTest
  @ValueSource(strings = {"gzip", "deflate, GZIP;q=0.5", "*", "br, *;q=0.1", "x-gzip"})
  void gzip_thatIsNamed_isAccepted(String encodings) {
    assertTrue(Gzip.isAccepted(encodings));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "identity", "gzip;q=0", "*;q=0", "gzip;q=0, *", "gzipped"})
  void gzip_thatIsNotNamed_isNotAccepted(String encodings) {
    assertFalse(Gzip.isAccepted(encodings));
  }

  @Test
  void gzip_withoutAHeader_isNotAccepted() {
    assertFalse(Gzip.isAccepted(null));
  }
}

package io.kvtier.daemon.config;

import java.net.URI;
import java.util.List;

/** Reads the sections {@code traces} and {@code log}. */
final class TelemetrySections {
  private final KeyReader keys;

  TelemetrySections(KeyReader keys) {
    this.keys = keys;
  }

  /** The spans of requests. */
  KvtierdConfig.TracesConfig traces() {
    String endpoint =
        keys.get(
            "traces.endpoint",
            TelemetrySections::tracesEndpoint,
            "a URL such as http://127.0.0.1:4318/v1/traces, or nothing");
    double sample =
        keys.get("traces.sample", Double::parseDouble, "a share from 0 to 1, such as 0.001");
    keys.require("traces.sample", sample >= 0 && sample <= 1, "a share from 0 to 1, such as 0.001");
    keys.require(
        "traces.sample",
        sample == 0 || !endpoint.isEmpty(),
        "0, where there is no traces.endpoint");
    return new KvtierdConfig.TracesConfig(endpoint, sample);
  }

  /** The log. */
  KvtierdConfig.LogConfig log() {
    return new KvtierdConfig.LogConfig(
        keys.get("log.level", TelemetrySections::logLevel, "error, warn, info, debug or trace"),
        keys.get("log.format", TelemetrySections::logFormat, "human or json"),
        keys.number("log.burst", 1, 1_000_000),
        keys.durationOrZero("log.burst_time", "10s"));
  }

  private static String tracesEndpoint(String text) {
    if (text.isEmpty()) {
      return text;
    }
    URI uri = URI.create(text);
    if (!("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()))
        || uri.getHost() == null
        || uri.getRawUserInfo() != null
        || uri.getRawPath().length() < 2) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private static String logLevel(String text) {
    if (!List.of("error", "warn", "info", "debug", "trace").contains(text)) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private static KvtierdConfig.LogFormat logFormat(String text) {
    return switch (text) {
      case "human" -> KvtierdConfig.LogFormat.HUMAN;
      case "json" -> KvtierdConfig.LogFormat.JSON;
      default -> throw new IllegalArgumentException();
    };
  }
}

package io.kvtier.daemon.config;

import io.kvtier.daemon.config.LoadedConfig.Entry;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.List;

/** A configuration as text for people and for programs. */
public final class ConfigText {
  private ConfigText() {}

  /** An array of keys. */
  public static JsonArray json(List<Entry> entries) {
    JsonArray all = new JsonArray();
    for (Entry entry : entries) {
      all.add(
          new JsonObject()
              .put("key", entry.key())
              .put("value", entry.value())
              .put("default", entry.defaultValue())
              .put("from", entry.from()));
    }
    return all;
  }

  /** A line for each key: its value, and where that comes from. */
  public static String lines(List<Entry> entries, boolean withDefaults) {
    int keys = entries.stream().mapToInt(entry -> entry.key().length()).max().orElse(0);
    int values = entries.stream().mapToInt(entry -> shown(entry.value()).length()).max().orElse(0);
    StringBuilder out = new StringBuilder();
    for (Entry entry : entries) {
      out.append(pad(entry.key(), keys)).append("  ").append(pad(shown(entry.value()), values));
      out.append("  ").append(entry.from());
      if (withDefaults) {
        out.append("; the default is ").append(shown(entry.defaultValue()));
      }
      out.append('\n');
    }
    return out.toString();
  }

  private static String shown(String value) {
    return value.isEmpty() ? "(empty)" : value;
  }

  private static String pad(String text, int width) {
    return text + " ".repeat(Math.max(0, width - text.length()));
  }
}

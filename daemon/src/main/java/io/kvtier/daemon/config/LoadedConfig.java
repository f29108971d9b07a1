package io.kvtier.daemon.config;

import io.kvtier.daemon.config.ConfigYaml.Value;
import io.kvtier.protocol.Secrets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** A configuration without mistakes, with each key's value and the place of that value. */
public final class LoadedConfig {
  /**
   * One key as people see it.
   *
   * @param value the value as it was written, without secrets
   * @param defaultValue the default as it was written, without secrets
   * @param from {@code default}, the file and its line, the environment's variable, or {@code
   *     --set}
   */
  public record Entry(String key, String value, String defaultValue, String from) {
    /** Whether the value differs from the default. */
    public boolean differs() {
      return !value.equals(defaultValue);
    }

    /**
     * Whether the value comes from the environment or from {@code --set}, which override a file.
     */
    public boolean isOverride() {
      return from.equals("--set") || from.startsWith(EnvironmentKeys.PLACE);
    }
  }

  private static final String DEFAULT = "default";

  private final KvtierdConfig config;
  private final Map<String, Value> values;
  private final Map<String, Value> defaults;

  LoadedConfig(KvtierdConfig config, Map<String, Value> values, Map<String, Value> defaults) {
    this.config = config;
    this.values = Map.copyOf(values);
    this.defaults = defaults;
  }

  /** The configuration with which the daemon starts. */
  public KvtierdConfig config() {
    return config;
  }

  /** Every key, in the order of the embedded configuration. */
  public List<Entry> entries() {
    return entries(values, defaults);
  }

  static List<Entry> entries(Map<String, Value> values, Map<String, Value> defaults) {
    List<Entry> entries = new ArrayList<>();
    for (Map.Entry<String, Value> each : defaults.entrySet()) {
      String key = each.getKey();
      Value value = Objects.requireNonNull(values.get(key), key);
      entries.add(
          new Entry(
              key,
              Secrets.hide(key, value.toString().trim()),
              Secrets.hide(key, each.getValue().toString().trim()),
              value.equals(each.getValue()) ? DEFAULT : value.where()));
    }
    return List.copyOf(entries);
  }

  /** The keys whose values are written otherwise in another configuration. */
  public List<String> changedFrom(LoadedConfig other) {
    return defaults.keySet().stream().filter(key -> !same(value(key), other.value(key))).toList();
  }

  /** A key's value as it was written. */
  public String text(String key) {
    return value(key).toString().trim();
  }

  /** A key's value as it was written, without secrets. */
  public String shown(String key) {
    String text = Secrets.hide(key, text(key));
    return text.isEmpty() ? "(empty)" : text;
  }

  /**
   * This configuration with the values of some keys taken from another one; {@link #config} does
   * not change.
   */
  public LoadedConfig taking(Set<String> keys, LoadedConfig newer) {
    Map<String, Value> merged = new HashMap<>(values);
    keys.forEach(key -> merged.put(key, newer.value(key)));
    return new LoadedConfig(config, merged, defaults);
  }

  /** The place of a key's value. */
  public String where(String key) {
    Value value = value(key);
    return value.equals(defaults.get(key)) ? DEFAULT : value.where();
  }

  private Value value(String key) {
    return Objects.requireNonNull(values.get(key), key);
  }

  private static boolean same(Value one, Value other) {
    return Objects.equals(one.text(), other.text()) && Objects.equals(one.items(), other.items());
  }
}

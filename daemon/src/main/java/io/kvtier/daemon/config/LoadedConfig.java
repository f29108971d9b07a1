package io.kvtier.daemon.config;

import io.kvtier.daemon.config.ConfigYaml.Value;
import io.kvtier.protocol.Secrets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** A configuration that was read and found right, with each key's value and where it stands. */
public final class LoadedConfig {
  /**
   * One key as people see it.
   *
   * @param value as it was written; secrets are left out
   * @param defaultValue the same of the default
   * @param from {@code default}, the file and its line, the environment's variable, or {@code
   *     --set}
   */
  public record Entry(String key, String value, String defaultValue, String from) {
    /** Whether it says something else than the default does. */
    public boolean differs() {
      return !value.equals(defaultValue);
    }

    /** Whether it stands in the environment or in {@code --set}, over any file. */
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

  /** What the daemon is started with. */
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

  /** The same without what is secret in it. */
  public String shown(String key) {
    String text = Secrets.hide(key, text(key));
    return text.isEmpty() ? "(empty)" : text;
  }

  /** This one, with some keys as another has them; {@link #config} stays as it is. */
  public LoadedConfig taking(Set<String> keys, LoadedConfig newer) {
    Map<String, Value> merged = new HashMap<>(values);
    keys.forEach(key -> merged.put(key, newer.value(key)));
    return new LoadedConfig(config, merged, defaults);
  }

  /** Where a key's value stands. */
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

package io.kvtier.daemon.config;

import io.kvtier.daemon.config.ConfigYaml.Value;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Loads the configuration: a file overrides the embedded defaults, the environment overrides the
 * file, and single settings override the environment. All mistakes are reported together.
 */
public final class ConfigLoader {
  private static final String DEFAULTS = "/kvtier.yaml";

  private ConfigLoader() {}

  /** The embedded defaults, which are read once. */
  private static final class Embedded {
    static final Map<String, Value> VALUES = read();
    static final KnownKeys KEYS = new KnownKeys(VALUES.keySet());

    private static Map<String, Value> read() {
      List<String> problems = new ArrayList<>();
      Map<String, Value> read = ConfigYaml.parse(defaults(), "the defaults", null, problems);
      if (!problems.isEmpty()) {
        throw new IllegalStateException(problems.toString());
      }
      return Collections.unmodifiableMap(read);
    }
  }

  /**
   * Loads and checks a configuration.
   *
   * @param file overrides the defaults; null for none
   * @param settings {@code key=value}, which override the file
   */
  public static KvtierdConfig load(@Nullable Path file, List<String> settings)
      throws ConfigException {
    return ConfigSource.of(file, settings).load().config();
  }

  /** Reads and checks a configuration, with the place of each value and with all problems. */
  static ConfigReading read(ConfigSource source) {
    List<String> problems = new ArrayList<>();
    KeyReader keys = new KeyReader(merged(source, problems), Embedded.VALUES, problems);
    KvtierdConfig config = build(keys);
    return new ConfigReading(
        new LoadedConfig(config, keys.values(), Embedded.VALUES), keys.mistaken(), problems);
  }

  /** The embedded configuration file. */
  public static String defaults() {
    try (InputStream in = ConfigLoader.class.getResourceAsStream(DEFAULTS)) {
      if (in == null) {
        throw new IllegalStateException(
            "the embedded configuration " + DEFAULTS + " is missing from the class path");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new IllegalStateException("the embedded configuration can't be read", e);
    }
  }

  /** The values of all keys as they were written. */
  private static Map<String, Value> merged(ConfigSource source, List<String> problems) {
    Map<String, Value> values = new LinkedHashMap<>(Embedded.VALUES);
    Path file = source.file();
    if (file != null) {
      String yaml = ConfigYaml.text(file, problems);
      values.putAll(ConfigYaml.parse(yaml, file.toString(), Embedded.KEYS, problems));
    }
    new EnvironmentKeys(Embedded.VALUES.keySet())
        .settings(source.environment())
        .forEach((variable, setting) ->
            set(values, setting, EnvironmentKeys.PLACE + variable, problems));
    source.settings().forEach(setting -> set(values, setting, "--set", problems));
    return values;
  }

  private static void set(
      Map<String, Value> values, String setting, String where, List<String> problems) {
    int equals = setting.indexOf('=');
    if (equals < 1) {
      problems.add("--set '" + setting + "': expected key=value, such as host.bytes=4GiB");
      return;
    }
    String key = setting.substring(0, equals);
    if (Embedded.KEYS.hasKey(key)) {
      values.put(key, Value.of(setting.substring(equals + 1), where));
    } else {
      problems.add(where + ": " + Embedded.KEYS.problem(key));
    }
  }

  /** Reads the sections in the order of the file, so that problems are reported in this order. */
  private static KvtierdConfig build(KeyReader keys) {
    // Plug-ins come first: other sections can name their policies, codecs and sources.
    KvtierdConfig.PluginsConfig plugins = new PluginSection(keys).read();
    NetworkSections network = new NetworkSections(keys);
    ResourceSections resources = new ResourceSections(keys);
    TelemetrySections telemetry = new TelemetrySections(keys);
    return new KvtierdConfig(
        network.socket(),
        new KvtierdConfig.TiersConfig(
            new HostSection(keys).read(),
            new SsdSection(keys).read(),
            new ObjectSection(keys).read(),
            plugins),
        new KvtierdConfig.CopiesConfig(resources.gpu(), resources.copy()),
        resources.limits(),
        new KvtierdConfig.NetworkConfig(
            network.grpc(),
            network.http(),
            network.tls(),
            network.access(),
            new NodesSection(keys).read()),
        TenantList.read(keys),
        new KvtierdConfig.ReportsConfig(
            new EventsSection(keys).read(),
            telemetry.traces(),
            telemetry.log(),
            LoadedConfig.entries(keys.values(), Embedded.VALUES)));
  }
}

package io.kvtier.daemon.config;

import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.SocketPaths;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;

/**
 * Reads the configuration: the embedded defaults, over them a file, over them single settings.
 * Every problem is an error that names where it stands, and unknown keys get the nearest known one
 * as a suggestion.
 */
public final class ConfigLoader {
  private static final String DEFAULTS = "/kvtier.yaml";
  private static final long MIB = 1L << 20;

  private record Value(Object value, String where) {}

  private final Map<String, Value> values = new LinkedHashMap<>();

  private ConfigLoader() {}

  /**
   * Loads and checks.
   *
   * @param file over the defaults; null for none
   * @param settings {@code key=value}, over the file
   */
  public static KvtierdConfig load(@Nullable Path file, List<String> settings)
      throws ConfigException {
    ConfigLoader loader = new ConfigLoader();
    loader.read(defaults(), "the defaults", false);
    if (file != null) {
      try {
        loader.read(Files.readString(file), file.toString(), true);
      } catch (IOException e) {
        throw new ConfigException("configuration file '" + file + "' can't be read: " + e);
      }
    }
    for (String setting : settings) {
      int equals = setting.indexOf('=');
      if (equals < 1) {
        throw new ConfigException(
            "--set '" + setting + "': expected key=value, such as host.bytes=4GiB");
      }
      loader.put(
          setting.substring(0, equals), setting.substring(equals + 1), "--set " + setting, true);
    }
    return loader.build();
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

  private void read(String yaml, String where, boolean onlyKnown) throws ConfigException {
    Object root;
    try {
      root = new Load(LoadSettings.builder().setLabel(where).build()).loadFromString(yaml);
    } catch (YamlEngineException e) {
      throw new ConfigException(where + " is not valid YAML: " + e.getMessage());
    }
    if (root == null) {
      return;
    }
    if (!(root instanceof Map<?, ?> map)) {
      throw new ConfigException(where + ": expected sections such as 'host:', found " + root);
    }
    flatten("", map, where, onlyKnown);
  }

  private void flatten(String prefix, Map<?, ?> map, String where, boolean onlyKnown)
      throws ConfigException {
    for (Map.Entry<?, ?> entry : map.entrySet()) {
      String key = prefix + entry.getKey();
      if (entry.getValue() instanceof Map<?, ?> section) {
        flatten(key + ".", section, where, onlyKnown);
      } else {
        put(key, entry.getValue() == null ? "" : entry.getValue(), where, onlyKnown);
      }
    }
  }

  private void put(String key, Object value, String where, boolean onlyKnown)
      throws ConfigException {
    if (onlyKnown && !values.containsKey(key)) {
      String nearest = null;
      int best = 6;
      for (String known : values.keySet()) {
        int distance = distance(known, key);
        if (distance < best) {
          best = distance;
          nearest = known;
        }
      }
      throw new ConfigException(
          where
              + ": unknown key '"
              + key
              + "'"
              + (nearest == null
                  ? "; kvtierd --print-config shows all keys"
                  : "; did you mean '" + nearest + "'?"));
    }
    values.put(key, new Value(value, where));
  }

  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j < row.length; j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j < row.length; j++) {
        int above = row[j];
        int replaced = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
        diagonal = above;
      }
    }
    return row[b.length()];
  }

  // ---- building
  // ------------------------------------------------------------------------------------------------

  private KvtierdConfig build() throws ConfigException {
    return new KvtierdConfig(socket(), host(), ssd(), copy(), limits(), grpc());
  }

  private KvtierdConfig.SocketConfig socket() throws ConfigException {
    String path = text("socket.path");
    int mode = get("socket.mode", v -> Integer.parseInt(v, 8), "an octal file mode such as 0660");
    return new KvtierdConfig.SocketConfig(
        path.isEmpty() ? SocketPaths.defaultPath() : Path.of(path),
        list("socket.users"),
        list("socket.groups"),
        mode);
  }

  private KvtierdConfig.HostConfig host() throws ConfigException {
    long slab = size("host.slab_bytes", MIB, 1L << 40);
    long bytes = size("host.bytes", slab, 1L << 50);
    requireMultiple("host.slab_bytes", slab, 4096, "4KiB");
    requireMultiple("host.bytes", bytes, slab, "host.slab_bytes");
    String policy = policy("host.policy");
    double free = get("host.free_target", Double::parseDouble, "a fraction such as 0.02");
    require("host.free_target", free >= 0 && free <= 0.25, "0 to 0.25");
    return new KvtierdConfig.HostConfig(bytes, slab, policy, free);
  }

  private KvtierdConfig.SsdConfig ssd() throws ConfigException {
    long file = size("ssd.file_bytes", MIB, 1L << 40);
    long bytes = size("ssd.bytes", 0, 1L << 50);
    requireMultiple("ssd.file_bytes", file, 4096, "4KiB");
    requireMultiple("ssd.bytes", bytes, file, "ssd.file_bytes");
    String directory = text("ssd.directory");
    return new KvtierdConfig.SsdConfig(
        bytes,
        directory.isEmpty()
            ? SocketPaths.defaultDataDirectory().resolve("ssd")
            : Path.of(directory),
        file,
        policy("ssd.policy"),
        admission("ssd.admission"),
        number("ssd.threads", 1, 256),
        number("ssd.queue_depth", 1, 65536));
  }

  private KvtierdConfig.CopyConfig copy() throws ConfigException {
    return new KvtierdConfig.CopyConfig(
        number("copy.threads", 1, 256),
        number("copy.queue_depth", 1, 65536),
        (int) size("copy.inline_bytes", 0, 1L << 30));
  }

  private KvtierdConfig.LimitsConfig limits() throws ConfigException {
    long lease = duration("limits.lease");
    long leaseMax = duration("limits.lease_max");
    long deadline = duration("limits.deadline");
    long deadlineMax = duration("limits.deadline_max");
    require(
        "limits.lease", lease > 0 && lease <= leaseMax, "more than 0 and at most limits.lease_max");
    require(
        "limits.deadline",
        deadline > 0 && deadline <= deadlineMax,
        "more than 0 and at most limits.deadline_max");
    return new KvtierdConfig.LimitsConfig(
        number("limits.blocks", 64, 1 << 27),
        number("limits.sessions", 1, 1 << 16),
        number("limits.operations", 1, 1 << 16),
        number("limits.operations_per_session", 1, 1 << 16),
        number("limits.holds", 64, 1 << 24),
        number("limits.holds_per_session", 1, 1 << 24),
        lease,
        leaseMax,
        deadline,
        deadlineMax);
  }

  private KvtierdConfig.GrpcConfig grpc() throws ConfigException {
    return new KvtierdConfig.GrpcConfig(
        get("grpc.enabled", ConfigLoader::bool, "true or false"),
        text("grpc.host"),
        number("grpc.port", 0, 65535),
        number("grpc.threads", 1, 64),
        (int) size("grpc.chunk_bytes", 4096, 3L << 20));
  }

  private static boolean bool(String text) {
    return switch (text) {
      case "true" -> true;
      case "false" -> false;
      default -> throw new IllegalArgumentException(text);
    };
  }

  private Value value(String key) {
    Value value = values.get(key);
    if (value == null) {
      throw new IllegalStateException("the embedded configuration has no key " + key);
    }
    return value;
  }

  private String text(String key) {
    return String.valueOf(value(key).value).trim();
  }

  private <T> T get(String key, Function<String, T> parser, String expected)
      throws ConfigException {
    try {
      return parser.apply(text(key));
    } catch (IllegalArgumentException e) {
      String detail =
          e.getMessage() == null || e instanceof NumberFormatException
              ? ""
              : " (" + e.getMessage() + ")";
      throw new ConfigException(
          value(key).where + ": " + key + " is '" + text(key) + "', expected " + expected + detail);
    }
  }

  private void require(String key, boolean holds, String expected) throws ConfigException {
    if (!holds) {
      throw new ConfigException(
          value(key).where + ": " + key + " is '" + text(key) + "', expected " + expected);
    }
  }

  private void requireMultiple(String key, long value, long unit, String unitName)
      throws ConfigException {
    require(
        key,
        value % unit == 0,
        "a multiple of " + unitName + " (" + Units.describeBytes(unit) + ")");
  }

  private String admission(String key) throws ConfigException {
    String admission = text(key);
    try {
      var _ = AdmissionPolicies.create(admission, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an admission policy: " + e.getMessage());
    }
    return admission;
  }

  private String policy(String key) throws ConfigException {
    String policy = text(key);
    try {
      var _ = EvictionPolicies.create(policy, 1, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an eviction policy: " + e.getMessage());
    }
    return policy;
  }

  private long size(String key, long min, long max) throws ConfigException {
    long bytes = get(key, Units::bytes, "a size such as 512MiB or 4GiB");
    require(
        key,
        bytes >= min && bytes <= max,
        "a size from " + Units.describeBytes(min) + " to " + Units.describeBytes(max));
    return bytes;
  }

  private long duration(String key) throws ConfigException {
    return get(key, Units::nanoseconds, "a duration such as 250ms or 30s");
  }

  private int number(String key, int min, int max) throws ConfigException {
    int number = get(key, Integer::parseInt, "a whole number");
    require(key, number >= min && number <= max, "a number from " + min + " to " + max);
    return number;
  }

  private List<String> list(String key) throws ConfigException {
    Object value = value(key).value;
    List<String> list = new ArrayList<>();
    if (value instanceof List<?> items) {
      items.forEach(item -> list.add(String.valueOf(item)));
    } else if (value instanceof String text) {
      for (String item : text.split(",", -1)) {
        if (!item.isBlank()) {
          list.add(item.trim());
        }
      }
    } else {
      throw new ConfigException(
          value(key).where + ": " + key + " is '" + value + "', expected a list");
    }
    return list;
  }
}

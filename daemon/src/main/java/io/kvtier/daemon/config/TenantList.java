package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.protocol.access.TokenLine;
import io.kvtier.tiers.files.ByteSize;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/** Reads the list {@code tenants}. Each item consists of words {@code key=value}. */
final class TenantList {
  /** The space of the tiers, and the units in which tenants get it. */
  record Space(long hostBytes, long slabBytes, long ssdBytes, long fileBytes) {}

  /** Maximum number of tenants: each takes memory for its own eviction policies. */
  private static final int TENANTS_MAX = 63;

  private static final int WEIGHT_MAX = 1000;

  /** A size can have a space before its unit, as in all other keys: {@code 64 GiB}. */
  private static final Pattern SPACE_BEFORE_UNIT =
      Pattern.compile("(_bytes=[0-9.]+)\\s+(?=[A-Za-z]+(?:\\s|$))");

  private static final Set<String> KEYS =
      Set.of("name", "users", "groups", "host_bytes", "ssd_bytes", "weight");

  private TenantList() {}

  /** The tenants as the key {@code tenants} names them. */
  static List<TenantConfig> read(KeyReader keys) {
    String key = "tenants";
    try {
      return parse(
          keys.list(key),
          new Space(
              Units.bytes(keys.text("host.bytes")),
              Units.bytes(keys.text("host.slab_bytes")),
              Units.bytes(keys.text("ssd.bytes")),
              Units.bytes(keys.text("ssd.file_bytes"))));
    } catch (IllegalArgumentException e) {
      keys.require(key, false, String.valueOf(e.getMessage()));
      return List.of();
    }
  }

  /**
   * Reads and checks tenants.
   *
   * @throws IllegalArgumentException with what was expected, in words
   */
  static List<TenantConfig> parse(List<String> items, Space space) {
    if (items.size() > TENANTS_MAX) {
      throw new IllegalArgumentException("at most " + TENANTS_MAX + " tenants");
    }
    List<TenantConfig> tenants = new ArrayList<>();
    Set<String> seen = new HashSet<>();
    long host = 0;
    long ssd = 0;
    for (String item : items) {
      TenantConfig tenant = tenant(item, space);
      tenants.add(tenant);
      requireOnce(seen, "name", tenant.name());
      tenant.users().forEach(user -> requireOnce(seen, "user", user));
      tenant.groups().forEach(group -> requireOnce(seen, "group", group));
      host = sum("host_bytes", host, tenant.hostBytes());
      ssd = sum("ssd_bytes", ssd, tenant.ssdBytes());
    }
    requireFits("host_bytes", host, "host.bytes", space.hostBytes);
    requireFits("ssd_bytes", ssd, "ssd.bytes", space.ssdBytes);
    return List.copyOf(tenants);
  }

  private static long sum(String key, long sum, long more) {
    try {
      return Math.addExact(sum, more);
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(
          "all " + key + " together to be less than " + ByteSize.words(Long.MAX_VALUE), e);
    }
  }

  private static void requireOnce(Set<String> seen, String kind, String name) {
    if (!seen.add(kind + " " + name)) {
      throw new IllegalArgumentException("each " + kind + " once: '" + name + "' is there twice");
    }
  }

  private static void requireFits(String key, long sum, String of, long there) {
    if (sum > there) {
      throw new IllegalArgumentException(
          "all "
              + key
              + " together, "
              + ByteSize.words(sum)
              + ", to be at most "
              + of
              + ", "
              + ByteSize.words(there));
    }
  }

  private static TenantConfig tenant(String item, Space space) {
    Map<String, String> words = new HashMap<>();
    for (String word : SPACE_BEFORE_UNIT.matcher(item.strip()).replaceAll("$1").split("\\s+", -1)) {
      int equals = word.indexOf('=');
      String key = equals < 0 ? word : word.substring(0, equals);
      if (equals < 1 || !KEYS.contains(key)) {
        throw new IllegalArgumentException(
            "tenants of keys name, users, groups, host_bytes, ssd_bytes and weight, not '"
                + key
                + "'");
      }
      if (words.put(key, word.substring(equals + 1)) != null) {
        throw new IllegalArgumentException(
            "each key of a tenant once: '" + key + "' is there twice in '" + item.strip() + "'");
      }
    }
    String name = words.getOrDefault("name", "");
    if (!TokenLine.isName(name)) {
      throw new IllegalArgumentException(
          "each tenant with a name of letters, digits, '.', '_', '@' or '-', not '" + name + "'");
    }
    return new TenantConfig(
        name,
        names(words.getOrDefault("users", "")),
        names(words.getOrDefault("groups", "")),
        bytes(name, words, "host_bytes", space.slabBytes, "host.slab_bytes"),
        bytes(name, words, "ssd_bytes", space.fileBytes, "ssd.file_bytes"),
        weight(name, words.getOrDefault("weight", "1")));
  }

  private static List<String> names(String text) {
    return text.isEmpty() ? List.of() : List.of(text.split("\\+", -1));
  }

  private static int weight(String name, String text) {
    try {
      int weight = Integer.parseInt(text);
      if (weight >= 1 && weight <= WEIGHT_MAX) {
        return weight;
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw new IllegalArgumentException(
        "weight of tenant '" + name + "' from 1 to " + WEIGHT_MAX + ", not '" + text + "'");
  }

  private static long bytes(
      String name, Map<String, String> words, String key, long unit, String unitName) {
    String text = words.getOrDefault(key, "0");
    long bytes;
    try {
      bytes = Units.bytes(text);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          key + " of tenant '" + name + "' as a size such as 512MiB, not '" + text + "'", e);
    }
    if (bytes % unit != 0) {
      throw new IllegalArgumentException(
          key
              + " of tenant '"
              + name
              + "' as a multiple of "
              + unitName
              + " ("
              + ByteSize.words(unit)
              + "), not '"
              + text
              + "'");
    }
    return bytes;
  }
}

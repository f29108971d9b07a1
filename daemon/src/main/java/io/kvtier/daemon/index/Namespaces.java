package io.kvtier.daemon.index;

import io.kvtier.daemon.access.Grant;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The registered cache layouts. A namespace's id, properties and block size never change while it
 * is registered; one that nobody uses is forgotten where there would be too many, and its id is
 * given to another.
 */
final class Namespaces {
  static final int NAMESPACES_MAX = 4096;

  /**
   * The properties by which namespaces are told apart, and the sizes that follow from them.
   *
   * @param tenant whose it is: others can have one of the same name
   * @param text all that makes the namespace, as {@link #ofText} reads it back
   * @param high the first half of the text's fingerprint: the name under which blocks are stored
   */
  record Namespace(
      int id,
      int tenant,
      String name,
      long blockBytes,
      Map<String, String> properties,
      String text,
      long high,
      long low,
      int hostClass,
      int ssdClass) {
    /** All of it in hexadecimal, as names of objects and operators have it. */
    String fingerprint() {
      HexFormat hex = HexFormat.of();
      return hex.toHexDigits(high) + hex.toHexDigits(low);
    }
  }

  /** A namespace that is written down, and not yet registered. */
  record Known(String tenant, String name, long blockBytes, Map<String, String> properties) {}

  /** A name, which is one of its tenant's. */
  private record Name(int tenant, String name) {}

  private final Tenants tenants;
  private final int[] sizes;

  private final List<@Nullable Namespace> byId = new ArrayList<>();
  private final BitSet free = new BitSet();
  private final Map<Name, Namespace> byName = new HashMap<>();
  private final Map<Long, Namespace> byFirstHalf = new HashMap<>();

  Namespaces(Tenants tenants) {
    this.tenants = tenants;
    this.sizes = new int[tenants.count()];
  }

  Tenants tenants() {
    return tenants;
  }

  @Nullable Namespace byId(int id) {
    return id >= 0 && id < byId.size() ? byId.get(id) : null;
  }

  /** The namespace of a block. */
  Namespace of(Directory directory, int block) {
    Namespace namespace = byId.get(directory.namespaceId(block));
    if (namespace == null) {
      throw new IllegalStateException("block " + block + " is of a namespace that was forgotten");
    }
    return namespace;
  }

  @Nullable Namespace byName(int tenant, String name) {
    return byName.get(new Name(tenant, name));
  }

  /**
   * A name that says whose it is, for who deals with those of all: {@code TENANT/NAME} of a
   * tenant's. One of nobody's is its name, behind a slash where that would read as a tenant's.
   */
  String fullName(Namespace namespace) {
    String name = namespace.name();
    return namespace.tenant() != Grant.NO_TENANT
        ? tenants.name(namespace.tenant()) + "/" + name
        : tenantIn(name) < 0 ? name : "/" + name;
  }

  /** The namespace of such a name. */
  @Nullable Namespace byFullName(String fullName) {
    int tenant = tenantIn(fullName);
    Namespace ofTenant =
        tenant < 0 ? null : byName(tenant, fullName.substring(fullName.indexOf('/') + 1));
    return ofTenant == null ? byName(Grant.NO_TENANT, fullName) : ofTenant;
  }

  /**
   * The namespace that an operator means: one of a tenant has only its tenant's to name, another
   * those of all, by their full names.
   */
  @Nullable Namespace byOperator(int tenant, String name) {
    return tenant == Grant.NO_TENANT ? byFullName(name) : byName(tenant, name);
  }

  /** The tenant that a name begins with; nobody's name is empty. -1 where there is none. */
  private int tenantIn(String name) {
    int slash = name.indexOf('/');
    return slash < 0 || tenants.count() == 1 ? -1 : tenants.number(name.substring(0, slash));
  }

  /** The namespace with a fingerprint, as it is stored with blocks. */
  @Nullable Namespace byFingerprint(long high, long low) {
    Namespace namespace = byFirstHalf.get(high);
    return namespace != null && namespace.low() == low ? namespace : null;
  }

  /** How many a tenant has. */
  int size(int tenant) {
    return sizes[tenant];
  }

  /** How many a tenant can have. */
  int max(int tenant) {
    return tenants.shareOf(NAMESPACES_MAX, tenant);
  }

  /** Above all ids. */
  int end() {
    return byId.size();
  }

  /** Forgets a namespace that nobody uses. */
  void forget(Namespace namespace) {
    byId.set(namespace.id(), null);
    free.set(namespace.id());
    sizes[namespace.tenant()]--;
    byName.remove(new Name(namespace.tenant(), namespace.name()));
    byFirstHalf.remove(namespace.high(), namespace);
  }

  Namespace add(
      int tenant,
      String name,
      long blockBytes,
      Map<String, String> properties,
      int hostClass,
      int ssdClass) {
    String text = textOf(tenants.name(tenant), blockBytes, properties);
    ByteBuffer digest = ByteBuffer.wrap(sha256(text));
    int reused = free.nextSetBit(0);
    Namespace namespace =
        new Namespace(
            reused < 0 ? byId.size() : reused,
            tenant,
            name,
            blockBytes,
            properties,
            text,
            digest.getLong(),
            digest.getLong(),
            hostClass,
            ssdClass);
    if (reused < 0) {
      byId.add(namespace);
    } else {
      free.clear(reused);
      byId.set(reused, namespace);
    }
    sizes[tenant]++;
    byName.put(new Name(tenant, name), namespace);
    byFirstHalf.put(namespace.high(), namespace);
    return namespace;
  }

  /** The tenant stands in the first line, where no property can: nobody can pass for another. */
  private static String textOf(String tenant, long blockBytes, Map<String, String> properties) {
    StringBuilder text = new StringBuilder(128).append(blockBytes);
    if (!tenant.isEmpty()) {
      text.append(' ').append(tenant);
    }
    new TreeMap<>(properties)
        .forEach((name, value) -> text.append('\n').append(name).append('=').append(value));
    return text.toString();
  }

  /** Reads a namespace's text; null when it is none. */
  static @Nullable Known ofText(String text) {
    int end = text.indexOf('\n');
    Map<String, String> properties = end < 0 ? null : parse(text.substring(end + 1));
    if (properties == null) {
      return null;
    }
    try {
      int space = text.lastIndexOf(' ', end);
      int bytesEnd = space < 0 ? end : space;
      long blockBytes = Long.parseLong(text, 0, bytesEnd, 10);
      String tenant = space < 0 ? "" : text.substring(space + 1, end);
      return new Known(tenant, properties.getOrDefault("name", ""), blockBytes, properties);
    } catch (NumberFormatException e) {
      return null;
    }
  }

  private static byte[] sha256(String text) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /**
   * Splits a registration's text; null when a line is not {@code property=value} or no name is
   * given.
   */
  static @Nullable Map<String, String> parse(String text) {
    Map<String, String> properties = new TreeMap<>();
    for (String line : text.split("\n", -1)) {
      if (line.isEmpty()) {
        continue;
      }
      int equals = line.indexOf('=');
      if (equals <= 0
          || properties.put(line.substring(0, equals), line.substring(equals + 1)) != null) {
        return null;
      }
    }
    String name = properties.get("name");
    return name == null || name.isEmpty() ? null : properties;
  }

  /** The first difference of two registrations in words, or null when they agree. */
  static @Nullable String difference(
      Namespace known, long blockBytes, Map<String, String> properties) {
    if (known.blockBytes != blockBytes) {
      return "block_bytes is " + known.blockBytes + " there, " + blockBytes + " here";
    }
    TreeSet<String> names = new TreeSet<>(known.properties.keySet());
    names.addAll(properties.keySet());
    for (String name : names) {
      String there = known.properties.get(name);
      String here = properties.get(name);
      if (there == null || !there.equals(here)) {
        return name + " is " + quoted(there) + " there, " + quoted(here) + " here";
      }
    }
    return null;
  }

  private static String quoted(@Nullable String value) {
    return value == null ? "absent" : "'" + value + "'";
  }
}

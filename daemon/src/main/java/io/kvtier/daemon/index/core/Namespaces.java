package io.kvtier.daemon.index.core;

import io.kvtier.daemon.access.Grant;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.protocol.RequestDescriptor;
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
 * The registered cache layouts. A namespace's id, number, properties and block size never change
 * while it is registered. An unused namespace is forgotten when there would be too many, or when
 * its name is registered with other properties. Its id, an index into tables, is then reused. Its
 * number, by which sessions know it, is not reused, so that an old number names nothing.
 */
public final class Namespaces {
  public static final int NAMESPACES_MAX = 4096;

  private static final int QUOTED_MAX = 64;
  private static final int QUOTED_BEFORE = 16;

  /** How often an id can be reused before its numbers repeat. */
  private static final int GENERATIONS_MAX = RequestDescriptor.NAMESPACE_ALL / NAMESPACES_MAX;

  /**
   * A registered namespace.
   *
   * @param number the number by which sessions know the namespace
   * @param tenant the owner; another tenant can have a namespace with an equal name
   * @param blockBytes the bytes of a raw block
   * @param encoding how clients may encode blocks; null when they may not
   * @param errors the errors of encoded blocks; null when the encoding has none
   * @param identity no other namespace has an equal one
   */
  public record Namespace(
      int id,
      int number,
      int tenant,
      String name,
      long blockBytes,
      @Nullable BlockEncoding encoding,
      @Nullable EncodingErrors errors,
      Map<String, String> properties,
      Identity identity) {
    /** The bytes of a block in one of its forms, as it is stored. */
    public long storedBytes(boolean isEncoded) {
      return isEncoded && encoding != null ? encoding.encodedBytes() : blockBytes;
    }

    /** The block size, the tenant and the properties in one text, which {@link #ofText} reads. */
    public String text() {
      return identity.text;
    }

    /** The name under which blocks are stored. */
    public Fingerprint fingerprint() {
      return identity.fingerprint;
    }

    public long high() {
      return identity.fingerprint.high;
    }

    public long low() {
      return identity.fingerprint.low;
    }
  }

  /** 128 bits of a namespace's text. */
  public record Fingerprint(long high, long low) {
    /** The fingerprint in hexadecimal, as in names of objects and operators' commands. */
    public String inHex() {
      HexFormat hex = HexFormat.of();
      return hex.toHexDigits(high) + hex.toHexDigits(low);
    }
  }

  /**
   * The text and the fingerprint that identify a namespace.
   *
   * @param text the block size, the tenant and the properties, which {@link #ofText} reads
   * @param fingerprint of the text: the name under which blocks are stored
   */
  public record Identity(String text, Fingerprint fingerprint) {}

  /** A namespace that was read from its text, and is not yet registered. */
  public record Known(
      String tenant, String name, long blockBytes, Map<String, String> properties) {}

  /** A name, unique within its tenant. */
  private record Name(int tenant, String name) {}

  private final Tenants tenants;
  private final int[] sizes;

  private final List<@Nullable Namespace> byId = new ArrayList<>();
  private final BitSet free = new BitSet();
  private final Map<Name, Namespace> byName = new HashMap<>();
  private final Map<Fingerprint, Namespace> byFingerprint = new HashMap<>();

  /** How often the namespace of each id was forgotten. */
  private final int[] generations = new int[NAMESPACES_MAX];

  public Namespaces(Tenants tenants) {
    this.tenants = tenants;
    this.sizes = new int[tenants.count()];
  }

  public Tenants tenants() {
    return tenants;
  }

  @Nullable
  public Namespace byId(int id) {
    return id >= 0 && id < byId.size() ? byId.get(id) : null;
  }

  /** The id of the namespace that sessions know by a number; -1: there is none. */
  public int idOf(int number) {
    int id = number & NAMESPACES_MAX - 1;
    return number >= 0 && id < byId.size() && number == generations[id] * NAMESPACES_MAX + id
        ? id
        : -1;
  }

  /** The namespace of a block. */
  public Namespace of(Directory directory, int block) {
    Namespace namespace = byId.get(directory.namespaceId(block));
    if (namespace == null) {
      throw new IllegalStateException("block " + block + " is of a namespace that was forgotten");
    }
    return namespace;
  }

  /** The bytes of a block, as it is stored. */
  public int storedBytes(Directory directory, int block) {
    boolean isEncoded = directory.has(BlockRecords.FLAG_ENCODED, block);
    return (int) of(directory, block).storedBytes(isEncoded);
  }

  @Nullable
  public Namespace byName(int tenant, String name) {
    return byName.get(new Name(tenant, name));
  }

  /**
   * The name of a namespace together with its tenant, for operators who see all tenants: {@code
   * TENANT/NAME}. The name of a namespace without a tenant stands alone; it has a slash before it
   * if it would otherwise read as a tenant's.
   */
  public String fullName(Namespace namespace) {
    String name = namespace.name();
    return namespace.tenant() != Grant.NO_TENANT
        ? tenants.name(namespace.tenant()) + "/" + name
        : tenantIn(name) < 0 ? name : "/" + name;
  }

  /** The namespace with a {@link #fullName}; null when there is none. */
  @Nullable Namespace byFullName(String fullName) {
    int tenant = tenantIn(fullName);
    Namespace ofTenant =
        tenant < 0 ? null : byName(tenant, fullName.substring(fullName.indexOf('/') + 1));
    return ofTenant == null ? byName(Grant.NO_TENANT, fullName) : ofTenant;
  }

  /**
   * The namespace that an operator means. An operator of a tenant can only name namespaces of that
   * tenant; other operators use full names.
   */
  @Nullable
  public Namespace byOperator(int tenant, String name) {
    return tenant == Grant.NO_TENANT ? byFullName(name) : byName(tenant, name);
  }

  /**
   * The number of the tenant that a full name begins with, or -1. The name of no tenant is empty.
   */
  private int tenantIn(String name) {
    int slash = name.indexOf('/');
    return slash < 0 || tenants.count() == 1 ? -1 : tenants.number(name.substring(0, slash));
  }

  /** The namespace with a fingerprint, as it is stored with blocks. */
  @Nullable
  public Namespace byFingerprint(long high, long low) {
    return byFingerprint.get(new Fingerprint(high, low));
  }

  /** The number of a tenant's namespaces. */
  public int size(int tenant) {
    return sizes[tenant];
  }

  /** The most namespaces that a tenant can have. */
  public int max(int tenant) {
    return tenants.shareOf(NAMESPACES_MAX, tenant);
  }

  /** One past the highest id. */
  public int end() {
    return byId.size();
  }

  /** Forgets an unused namespace. */
  public void forget(Namespace namespace) {
    byId.set(namespace.id(), null);
    free.set(namespace.id());
    generations[namespace.id()] = (generations[namespace.id()] + 1) % GENERATIONS_MAX;
    sizes[namespace.tenant()]--;
    byName.remove(new Name(namespace.tenant(), namespace.name()));
    byFingerprint.remove(namespace.fingerprint(), namespace);
  }

  public Namespace add(int tenant, String name, long blockBytes, Map<String, String> properties) {
    String text = textOf(tenants.name(tenant), blockBytes, properties);
    int reused = free.nextSetBit(0);
    int id = reused < 0 ? byId.size() : reused;
    BlockEncoding encoding = BlockEncoding.of(properties, blockBytes);
    Namespace namespace =
        new Namespace(
            id,
            generations[id] * NAMESPACES_MAX + id,
            tenant,
            name,
            blockBytes,
            encoding,
            EncodingErrors.of(encoding, properties.get(KvLayout.FORM_PROPERTY)),
            properties,
            new Identity(text, fingerprintOf(text)));
    if (reused < 0) {
      byId.add(namespace);
    } else {
      free.clear(reused);
      byId.set(reused, namespace);
    }
    sizes[tenant]++;
    byName.put(new Name(tenant, name), namespace);
    byFingerprint.put(namespace.fingerprint(), namespace);
    return namespace;
  }

  /** The fingerprint of a namespace's text. */
  public static Fingerprint fingerprintOf(String text) {
    ByteBuffer digest = ByteBuffer.wrap(sha256(text));
    return new Fingerprint(digest.getLong(), digest.getLong());
  }

  /**
   * The tenant is in the first line, where no property can be, so that no client can imitate
   * another tenant.
   */
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
  public static @Nullable Known ofText(String text) {
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
  public static @Nullable Map<String, String> parse(String text) {
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

  /**
   * The difference of two registrations in words, or null when they agree: the first property that
   * differs, and the size of the blocks, which often differs because of it.
   */
  public static @Nullable String difference(
      Namespace known, long blockBytes, Map<String, String> properties) {
    String property = difference(known, properties);
    if (known.blockBytes == blockBytes) {
      return property;
    }
    String size = "block_bytes is " + known.blockBytes + " there, " + blockBytes + " here";
    return property == null ? size : property + ", and " + size;
  }

  private static @Nullable String difference(Namespace known, Map<String, String> properties) {
    TreeSet<String> names = new TreeSet<>(known.properties.keySet());
    names.addAll(properties.keySet());
    for (String name : names) {
      String there = known.properties.get(name);
      String here = properties.get(name);
      if (there == null || !there.equals(here)) {
        int at = Math.max(0, mismatch(there, here) - QUOTED_BEFORE);
        return name + " is " + quoted(there, at) + " there, " + quoted(here, at) + " here";
      }
    }
    return null;
  }

  private static int mismatch(@Nullable String there, @Nullable String here) {
    if (there == null || here == null) {
      return 0;
    }
    int at = 0;
    while (at < there.length() && at < here.length() && there.charAt(at) == here.charAt(at)) {
      at++;
    }
    return at;
  }

  /** The part of a long value around its first difference, because a refusal's text is short. */
  private static String quoted(@Nullable String value, int from) {
    if (value == null) {
      return "absent";
    }
    if (value.length() <= QUOTED_MAX) {
      return "'" + value + "'";
    }
    int begin = Math.min(from, value.length() - QUOTED_MAX);
    int end = begin + QUOTED_MAX;
    return (begin == 0 ? "'" : "'...")
        + value.substring(begin, end)
        + (end == value.length() ? "'" : "...'");
  }
}

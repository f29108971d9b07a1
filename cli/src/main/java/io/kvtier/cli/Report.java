package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.protocol.Hits;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's state as it tells it, read leniently: what is absent reads as 0, empty or unknown.
 */
record Report(JsonObject json) {
  /** A tier's numbers. */
  record Tier(JsonObject json) {
    String name() {
      return json.getString("tier", "?");
    }

    long number(String field) {
      return json.getLong(field, 0);
    }

    List<JsonObject> sizeClasses() {
      return objects(json, "size_classes");
    }
  }

  /** A namespace and what it was registered with. */
  record Namespace(JsonObject json) {
    String name() {
      return json.getString("name", "");
    }

    /** Its name, behind its tenant's where it has one: so operators' commands name it. */
    String fullName() {
      String tenant = json.getString("tenant", "");
      return tenant.isEmpty() ? name() : tenant + "/" + name();
    }

    /** What its blocks are stored under, on SSD and in the object store. */
    String fingerprint() {
      return json.getString("fingerprint", "");
    }

    /** Whose it is; empty for nobody's. */
    String tenant() {
      return json.getString("tenant", "");
    }

    long blockBytes() {
      return json.getLong("block_bytes", 0);
    }

    long hostBlocks() {
      return json.getLong("host_blocks", 0);
    }

    long ssdBlocks() {
      return json.getLong("ssd_blocks", 0);
    }

    Map<String, String> properties() {
      Map<String, String> properties = new LinkedHashMap<>();
      if (json.get("properties") instanceof JsonObject object) {
        object.forEach(member -> {
          JsonValue value = member.getValue();
          properties.put(member.getName(), value.isString() ? value.asString() : value.toString());
        });
      }
      return properties;
    }
  }

  List<Tier> tiers() {
    return objects(json, "tiers").stream().map(Tier::new).toList();
  }

  /** The object tier; null where there is none. */
  @Nullable JsonObject object() {
    return json.get("object") instanceof JsonObject object ? object : null;
  }

  List<Namespace> namespaces() {
    return objects(json, "namespaces").stream().map(Namespace::new).toList();
  }

  /** The parts that do not do what they are there for: each has a part and a reason. */
  List<JsonObject> troubles() {
    return objects(json, "troubles");
  }

  /** How many there are, of which not all may have been told. */
  long namespacesTotal() {
    return json.getLong("namespaces_total", namespaces().size());
  }

  /** How many clients there are, but for the one that asks and the daemon's own remote front. */
  int otherClients() {
    long clients = sessions().stream().filter(session -> session.getLong("id", 0) != 0).count();
    return (int) Math.max(0, clients - 1);
  }

  /** Nobody's part first, then those of tenants; empty where there are none. */
  List<JsonObject> tenants() {
    return objects(json, "tenants");
  }

  List<JsonObject> sessions() {
    return objects(json, "sessions");
  }

  /** The namespace of a name; one that is a tenant's only where there is no other. */
  @Nullable Namespace namespace(String name) {
    Namespace ofTenant = null;
    for (Namespace namespace : namespaces()) {
      if (namespace.name().equals(name)) {
        if (namespace.tenant().isEmpty()) {
          return namespace;
        }
        ofTenant = namespace;
      }
    }
    return ofTenant;
  }

  /** How many blocks gets were given, wherever they came from. */
  static long hits(Map<String, Long> counters) {
    return Hits.COUNTERS.stream().mapToLong(hits -> counters.getOrDefault(hits.key(), 0L)).sum();
  }

  Map<String, Long> counters() {
    Map<String, Long> counters = new LinkedHashMap<>();
    if (json.get("counters") instanceof JsonObject object) {
      object.forEach(member -> {
        if (member.getValue().isNumber()) {
          counters.put(member.getName(), member.getValue().asLong());
        }
      });
    }
    return counters;
  }

  /** The same of the tiers that there are. */
  JsonObject balance() {
    return balance(counters(), tiers().stream().map(Tier::name).toList());
  }

  /** Free, resident and in-flight slots of each tier with slots, whose sum is the total. */
  static JsonObject balance(Map<String, Long> counters) {
    return balance(counters, List.of("host", "ssd"));
  }

  private static JsonObject balance(Map<String, Long> counters, List<String> tiers) {
    JsonObject balance = new JsonObject();
    for (String tier : tiers) {
      JsonObject slots = new JsonObject();
      for (String state : List.of("free", "resident", "in_flight", "total")) {
        slots.add(state, counters.getOrDefault(tier + "_slots_" + state, 0L));
      }
      balance.add(tier, slots);
    }
    return balance;
  }

  private static List<JsonObject> objects(JsonObject json, String field) {
    List<JsonObject> objects = new ArrayList<>();
    if (json.get(field) instanceof JsonArray array) {
      for (JsonValue value : array) {
        if (value instanceof JsonObject object) {
          objects.add(object);
        }
      }
    }
    return objects;
  }
}

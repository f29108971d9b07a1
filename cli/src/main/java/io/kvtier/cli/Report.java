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

/** The daemon's own report. An absent field reads as 0, empty or unknown. */
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

    /**
     * The name as operators' commands write it: the tenant's name, if there is one, then the
     * namespace's.
     */
    String fullName() {
      String tenant = json.getString("tenant", "");
      return tenant.isEmpty() ? name() : tenant + "/" + name();
    }

    /** The fingerprint by which SSD and object store know the blocks. */
    String fingerprint() {
      return json.getString("fingerprint", "");
    }

    /** The tenant's name; empty if there is no tenant. */
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

    /** The mean relative error of each layer in a lossy encoding; empty if none is known. */
    List<Double> encodingErrors() {
      List<Double> errors = new ArrayList<>();
      if (json.get("encoding_errors") instanceof JsonArray all) {
        all.forEach(error -> errors.add(error.asDouble()));
      }
      return errors;
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

  /** The blocks that clients retain; empty if an old daemon does not know retention. */
  JsonObject retained() {
    return json.get("retained") instanceof JsonObject retained ? retained : new JsonObject();
  }

  /** The object tier; null where there is none. */
  @Nullable JsonObject object() {
    return json.get("object") instanceof JsonObject object ? object : null;
  }

  /** The NUMA nodes of the memory; null where they do not matter. */
  @Nullable JsonObject numa() {
    return json.get("numa") instanceof JsonObject numa ? numa : null;
  }

  List<Namespace> namespaces() {
    return objects(json, "namespaces").stream().map(Namespace::new).toList();
  }

  /** The troubles: each has a part, a reason and a cure. */
  List<JsonObject> troubles() {
    return objects(json, "troubles");
  }

  /** The count of all namespaces; the report may contain only some of them. */
  long namespacesTotal() {
    return json.getLong("namespaces_total", namespaces().size());
  }

  /** The count of clients, without the one that asks and without the daemon's own gRPC server. */
  int otherClients() {
    long clients = sessions().stream().filter(session -> session.getLong("id", 0) != 0).count();
    return (int) Math.max(0, clients - 1);
  }

  /** The part of no tenant first, then the tenants' parts; empty if there are no tenants. */
  List<JsonObject> tenants() {
    return objects(json, "tenants");
  }

  List<JsonObject> sessions() {
    return objects(json, "sessions");
  }

  /** The namespace with a name: one without a tenant if there is one, else a tenant's. */
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

  /** The count of blocks that gets were given, from all tiers. */
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

  /** The balance of this report's tiers. */
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

  static List<JsonObject> objects(JsonObject json, String field) {
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

package io.kvtier.daemon.http;

import io.kvtier.daemon.index.report.HealthReport;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.List;

/**
 * A part of the daemon in trouble, as the index reports it.
 *
 * @param part such as ssd/0 or object/load
 * @param cure what an operator can do
 */
record Trouble(String part, String reason, String cure) {
  /** The troubles in the index's report. */
  static List<Trouble> of(JsonObject report) {
    return objects(report, "troubles").stream()
        .map(one ->
            new Trouble(one.getString("part"), one.getString("reason"), one.getString("cure", "")))
        .toList();
  }

  /** The troubles in a health report. */
  static List<Trouble> of(HealthReport health) {
    return health.troubles().stream()
        .map(one -> new Trouble(one.part(), one.reason(), one.cure()))
        .toList();
  }

  /**
   * Troubles as JSON.
   *
   * @param withReasons false for callers without rights: a reason can contain an object store's
   *     message
   */
  static JsonArray json(List<Trouble> troubles, boolean withReasons) {
    JsonArray all = new JsonArray();
    for (Trouble trouble : troubles) {
      JsonObject one = new JsonObject().put("part", trouble.part());
      all.add(withReasons ? one.put("reason", trouble.reason()).put("cure", trouble.cure()) : one);
    }
    return all;
  }

  /** The objects in an array of a report; empty if the array is absent. */
  static List<JsonObject> objects(JsonObject json, String field) {
    List<JsonObject> objects = new ArrayList<>();
    JsonArray array = json.getJsonArray(field);
    if (array != null) {
      for (Object each : array) {
        if (each instanceof JsonObject object) {
          objects.add(object);
        }
      }
    }
    return objects;
  }
}

package io.kvtier.daemon.http;

import io.kvtier.daemon.index.report.HealthReport;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.List;

/**
 * A part of the daemon that does not do what it is there for, as the index reports it.
 *
 * @param part such as ssd/0 or object/load
 * @param cure what an operator can do
 */
record Trouble(String part, String reason, String cure) {
  /** The parts that the index's report names. */
  static List<Trouble> of(JsonObject report) {
    return objects(report, "troubles").stream()
        .map(one ->
            new Trouble(one.getString("part"), one.getString("reason"), one.getString("cure", "")))
        .toList();
  }

  /** The parts that a health report names. */
  static List<Trouble> of(HealthReport health) {
    return health.troubles().stream()
        .map(one -> new Trouble(one.part(), one.reason(), one.cure()))
        .toList();
  }

  /**
   * As JSON.
   *
   * @param withReasons not for anybody: a reason may be the words of the object store
   */
  static JsonArray json(List<Trouble> troubles, boolean withReasons) {
    JsonArray all = new JsonArray();
    for (Trouble trouble : troubles) {
      JsonObject one = new JsonObject().put("part", trouble.part());
      all.add(withReasons ? one.put("reason", trouble.reason()).put("cure", trouble.cure()) : one);
    }
    return all;
  }

  /** The objects of an array of a report; none where it is missing. */
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

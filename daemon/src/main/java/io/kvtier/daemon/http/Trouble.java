package io.kvtier.daemon.http;

import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.List;

/**
 * A part of the daemon that does not do what it is there for, as the index reports it.
 *
 * @param part such as ssd/0 or object/load
 */
record Trouble(String part, String reason) {
  /** The parts that the index's report names. */
  static List<Trouble> of(JsonObject report) {
    return objects(report, "troubles").stream()
        .map(one -> new Trouble(one.getString("part"), one.getString("reason")))
        .toList();
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

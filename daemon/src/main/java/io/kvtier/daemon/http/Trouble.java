package io.kvtier.daemon.http;

import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.List;

/**
 * A part of the daemon that does not do what it is there for.
 *
 * @param part ssd/DEVICE, host/keep, host/ledger, object/load, object/store, object/probe,
 *     object/ledger or gpu/NUMBER, and puts/drain where an operator wants it so
 */
record Trouble(String part, String reason) {
  private static final JsonObject NONE = new JsonObject();

  /** The parts that the index's report shows to be in trouble. */
  static List<Trouble> of(JsonObject report) {
    List<Trouble> troubles = new ArrayList<>();
    if (report.getBoolean("draining", false)) {
      troubles.add(new Trouble("puts/drain", "new blocks are refused until 'kvtier drain --off'"));
    }
    for (JsonObject tier : objects(report, "tiers")) {
      String ledger = tier.getString("trouble", "");
      if (!ledger.isEmpty()) {
        troubles.add(
            new Trouble(
                tier.getString("tier") + "/ledger",
                "the next start will not find blocks of new namespaces in memory: " + ledger));
      }
      for (JsonObject device : objects(tier, "devices")) {
        String state = device.getString("state", "open");
        if (!state.equals("open")) {
          troubles.add(
              new Trouble(
                  tier.getString("tier") + "/" + device.getInteger("device"),
                  (state.equals("given_up")
                          ? "the device was given up, as it failed again and again: blocks leave"
                              + " memory without it, and it is tried again every few seconds"
                          : "the device is fenced after errors, and tried again soon")
                      + because(device.getString("cause", ""))));
        }
      }
    }
    if (report.getJsonObject("counters", NONE).getLong("keeper_missing", 0L) != 0) {
      troubles.add(
          new Trouble(
              "host/keep",
              "no process keeps the memory (host.keep): the blocks in it are lost when the daemon"
                  + " ends; the log says why"));
    }
    JsonObject object = report.getJsonObject("object");
    if (object != null) {
      way(troubles, object, "load", !object.getBoolean("takes_loads", true));
      way(troubles, object, "store", !object.getBoolean("takes_stores", true));
      way(troubles, object, "probe", false);
      String ledger = object.getString("ledger_trouble", "");
      if (!ledger.isEmpty()) {
        troubles.add(
            new Trouble(
                "object/ledger", "what is in the store is found out by asking it: " + ledger));
      }
    }
    for (JsonObject gpu : objects(report, "gpus")) {
      String fence = gpu.getString("fence");
      if (fence != null) {
        troubles.add(new Trouble("gpu/" + gpu.getInteger("gpu"), fence));
      }
    }
    return troubles;
  }

  private static String because(String cause) {
    return cause.isEmpty() ? "" : ": " + cause;
  }

  private static void way(List<Trouble> troubles, JsonObject object, String way, boolean isClosed) {
    String cause = object.getString(way + "_trouble", "");
    if (isClosed || !cause.isEmpty()) {
      troubles.add(
          new Trouble("object/" + way, "the object store does not answer" + because(cause)));
    }
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

package io.kvtier.daemon.http;

import io.kvtier.daemon.config.ConfigText;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.protocol.Counter;
import io.vertx.core.Future;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;

/** The daemon's state as JSON, in the form of {@code kvtier COMMAND --json}. */
final class State {
  private final Path socket;
  private final Supplier<List<LoadedConfig.Entry>> settings;
  private final Counters counters;
  private final IndexReports reports;

  State(
      Path socket,
      Supplier<List<LoadedConfig.Entry>> settings,
      Counters counters,
      IndexReports reports) {
    this.socket = socket;
    this.settings = settings;
    this.counters = counters;
    this.reports = reports;
  }

  Future<Answer> status() {
    return reports
        .fresh()
        .map(report -> {
          JsonObject all = report.json();
          JsonObject status =
              new JsonObject()
                  .put("answers", true)
                  .put("socket", socket.toString())
                  .put("round_trip_ns", report.roundTripNs());
          for (String field : List.of("version", "pid", "generation", "uptime_s", "draining")) {
            status.put(field, all.getValue(field));
          }
          status.put("sessions", counters.get(Counter.GAUGE_SESSIONS));
          status.put("namespaces", all.getLong("namespaces_total"));
          status.put("balance", balance(all));
          copy(all, "object", status);
          List<Trouble> troubles = Trouble.of(all);
          status.put("degraded", !troubles.isEmpty());
          status.put("troubles", Trouble.json(troubles, true));
          return Answer.json(status);
        });
  }

  /** The whole state; only the counters from memory if the index does not answer. */
  Future<Answer> stats() {
    return reports
        .fresh()
        .map(report -> Answer.json(report.json().copy().put("balance", balance(report.json()))))
        .recover(cause -> {
          if (!(cause instanceof ProblemException)) {
            return Future.failedFuture(cause);
          }
          JsonObject all = new JsonObject().put("answers", false);
          JsonObject values = new JsonObject();
          for (Counter counter : Counter.values()) {
            values.put(counter.key(), counters.get(counter));
          }
          all.put("counters", values);
          return Future.succeededFuture(Answer.json(all.put("balance", balance(all))));
        });
  }

  Future<Answer> tiers() {
    return reports
        .fresh()
        .map(report -> {
          JsonObject tiers = new JsonObject();
          copy(report.json(), "tiers", tiers);
          copy(report.json(), "namespaces", tiers);
          copy(report.json(), "namespaces_total", tiers);
          copy(report.json(), "object", tiers);
          copy(report.json(), "gpus", tiers);
          copy(report.json(), "numa", tiers);
          copy(report.json(), "tenants", tiers);
          copy(report.json(), "tenants_total", tiers);
          return Answer.json(tiers);
        });
  }

  Future<Answer> sessions() {
    return only("sessions");
  }

  Future<Answer> namespaces() {
    return only("namespaces");
  }

  private Future<Answer> only(String field) {
    return reports
        .fresh()
        .map(report -> {
          JsonObject json = new JsonObject();
          copy(report.json(), field, json);
          copy(report.json(), field + "_total", json);
          return Answer.json(json);
        });
  }

  Future<Answer> policies() {
    return reports
        .fresh()
        .map(report -> {
          JsonObject policies = new JsonObject();
          for (JsonObject tier : Trouble.objects(report.json(), "tiers")) {
            policies.put(tier.getString("tier"), tier.getString("policy"));
          }
          return Answer.json(policies);
        });
  }

  Future<Answer> whatIf() {
    return reports
        .fresh()
        .map(report -> {
          JsonArray curves = new JsonArray();
          for (JsonObject tier : Trouble.objects(report.json(), "tiers")) {
            for (JsonObject one : Trouble.objects(tier, "what_if")) {
              curves.add(one.copy().put("tier", tier.getString("tier")));
            }
          }
          return Answer.json(curves);
        });
  }

  Answer config() {
    return Answer.json(ConfigText.json(settings.get()));
  }

  private static void copy(JsonObject from, String field, JsonObject to) {
    if (from.containsKey(field)) {
      to.put(field, from.getValue(field));
    }
  }

  /** Free, resident and in-flight slots of each tier with slots, whose sum is the total. */
  private static JsonObject balance(JsonObject report) {
    JsonObject counters = report.getJsonObject("counters");
    List<JsonObject> tiers = Trouble.objects(report, "tiers");
    List<String> names =
        tiers.isEmpty()
            ? List.of("host", "ssd")
            : tiers.stream().map(tier -> tier.getString("tier")).toList();
    JsonObject balance = new JsonObject();
    for (String tier : names) {
      JsonObject slots = new JsonObject();
      for (String state : List.of("free", "resident", "in_flight", "total")) {
        slots.put(state, counters.getLong(tier + "_slots_" + state, 0L));
      }
      balance.put(tier, slots);
    }
    return balance;
  }
}

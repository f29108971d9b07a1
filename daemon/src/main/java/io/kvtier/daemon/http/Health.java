package io.kvtier.daemon.http;

import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.daemon.index.report.Heartbeat;
import io.vertx.core.Future;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.Supplier;

/**
 * Tells whether the daemon lives, and whether it is ready. A daemon with a failed part stays ready,
 * and is shown as degraded: gets are then misses, and nothing worse.
 */
final class Health {
  private final Heartbeat heartbeat;
  private final IndexReports reports;
  private final Supplier<HealthReport> parts;

  /**
   * The health of a daemon.
   *
   * @param parts the index's last report about its parts
   */
  Health(MemorySegment daemonRegion, IndexReports reports, Supplier<HealthReport> parts) {
    heartbeat = new Heartbeat(daemonRegion);
    this.reports = reports;
    this.parts = parts;
  }

  /** The time since the index's last heartbeat, ns. */
  long heartbeatAgeNs() {
    return heartbeat.ageNs();
  }

  /**
   * Tells whether the process and the index's thread make progress, and names the troubles.
   *
   * @param withReasons not for anybody: a reason may be the words of the object store
   */
  Answer live(boolean withReasons) {
    long ageNs = heartbeatAgeNs();
    boolean isLive = Heartbeat.isLive(ageNs);
    JsonObject body =
        withTroubles(
            new JsonObject().put("live", isLive).put("heartbeat_age_ms", ageNs / 1_000_000),
            withReasons);
    if (!isLive) {
      body.put(
          "reason", "no sign of life from the index for " + ageNs / 1_000_000_000 + " s: it hangs");
    }
    return Answer.json(isLive ? 200 : 503, body);
  }

  /**
   * Tells whether requests are answered, and names the troubles.
   *
   * @param withReasons not for anybody: a reason may be the words of the object store
   */
  Future<Answer> ready(boolean withReasons) {
    return reports
        .fresh()
        // The index has looked at its parts for the report.
        .map(report -> Answer.json(withTroubles(new JsonObject().put("ready", true), withReasons)))
        .recover(cause ->
            cause instanceof ProblemException
                ? Future.succeededFuture(
                    Answer.json(
                        503,
                        new JsonObject()
                            .put("ready", false)
                            .put("reason", String.valueOf(cause.getMessage()))))
                : Future.failedFuture(cause));
  }

  private JsonObject withTroubles(JsonObject body, boolean withReasons) {
    List<Trouble> troubles = Trouble.of(parts.get());
    return body.put("degraded", !troubles.isEmpty())
        .put("troubles", Trouble.json(troubles, withReasons));
  }
}

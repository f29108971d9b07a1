package io.kvtier.daemon.http;

import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import io.vertx.core.Future;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Whether the daemon lives, and whether it is ready. A part that failed leaves it ready, as gets
 * are misses then, and nothing worse; it is named as degraded.
 */
final class Health {
  /** The index looks round every half a second at least. */
  private static final long HEARTBEAT_NS_MAX = 5_000_000_000L;

  private final MemorySegment daemonRegion;
  private final IndexReports reports;

  Health(MemorySegment daemonRegion, IndexReports reports) {
    this.daemonRegion = daemonRegion;
    this.reports = reports;
  }

  /** How long ago the index last looked round, ns. */
  long heartbeatAgeNs() {
    long beat = Words.getLongAcquire(daemonRegion, DaemonRegionDescriptor.HEARTBEAT_OFFSET);
    return Math.max(0, System.nanoTime() - beat);
  }

  /** That the process and the index's thread go on. */
  Answer live() {
    long ageNs = heartbeatAgeNs();
    boolean isLive = ageNs < HEARTBEAT_NS_MAX;
    JsonObject body =
        new JsonObject().put("live", isLive).put("heartbeat_age_ms", ageNs / 1_000_000);
    if (!isLive) {
      body.put(
          "reason", "no sign of life from the index for " + ageNs / 1_000_000_000 + " s: it hangs");
    }
    return Answer.json(isLive ? 200 : 503, body);
  }

  /**
   * That requests are answered, and what is wrong all the same.
   *
   * @param withReasons not for anybody: a reason may be the words of the object store
   */
  Future<Answer> ready(boolean withReasons) {
    return reports
        .fresh()
        .map(report -> {
          List<Trouble> troubles = Trouble.of(report.json());
          return Answer.json(
              new JsonObject()
                  .put("ready", true)
                  .put("degraded", !troubles.isEmpty())
                  .put("troubles", json(troubles, withReasons)));
        })
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

  static JsonArray json(List<Trouble> troubles, boolean withReasons) {
    JsonArray all = new JsonArray();
    for (Trouble trouble : troubles) {
      JsonObject one = new JsonObject().put("part", trouble.part());
      all.add(withReasons ? one.put("reason", trouble.reason()) : one);
    }
    return all;
  }
}

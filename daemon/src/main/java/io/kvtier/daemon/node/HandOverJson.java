package io.kvtier.daemon.node;

import io.kvtier.protocol.Status;
import io.vertx.core.json.JsonObject;
import java.util.Map;
import java.util.TreeMap;

/** How far a hand-over is, as operators get it. */
final class HandOverJson {
  private HandOverJson() {}

  static JsonObject of(HandOver.Progress progress) {
    JsonObject refused = new JsonObject();
    Map<String, Long> byReason = new TreeMap<>();
    progress.refused().forEach((status, count) -> byReason.merge(reason(status), count, Long::sum));
    if (progress.unkept() > 0) {
      byReason.put("leases_used_up", progress.unkept());
    }
    byReason.forEach(refused::put);
    return new JsonObject()
        .put("running", progress.isRunning())
        .put("whole", progress.isWhole())
        .put("blocks", progress.blocks())
        .put("pushed", progress.pushed())
        .put("pushed_bytes", progress.pushedBytes())
        .put("present", progress.present())
        .put("gone", progress.gone())
        .put("refused", refused)
        .put("why", progress.why())
        .put("elapsed_ms", progress.elapsedNs() / 1_000_000);
  }

  /** Why a node has not taken a block, in one word. */
  private static String reason(Status status) {
    return switch (status) {
      case BUSY -> "full";
      case OVER_QUOTA -> "share_used_up";
      case DENIED -> "denied";
      case NOT_ADMITTED -> "drained";
      case NAMESPACE_UNKNOWN, NAMESPACE_MISMATCH, INVALID_ARGUMENT, TOO_LARGE -> "namespace";
      case CORRUPT -> "corrupt";
      case UNAVAILABLE -> "unreachable";
      case PENDING, CANCELLED, DEADLINE -> "not_in_time";
      default -> "other";
    };
  }
}

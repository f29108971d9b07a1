package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;

/** The troubles that a daemon reports of itself, as findings of the doctor. */
final class DaemonTroubles {
  private DaemonTroubles() {}

  /** A finding for each part in trouble, or one that says that there is none. */
  static void addTo(JsonArray findings, Report report) {
    for (JsonObject trouble : report.troubles()) {
      String part = trouble.getString("part", "?");
      boolean isWanted = part.equals("puts/drain");
      DoctorCommand.add(
          findings,
          isWanted ? "drain" : part,
          isWanted ? "warn" : "fail",
          trouble.getString("reason", "?"),
          trouble.getString("cure", ""));
    }
    if (report.troubles().isEmpty()) {
      DoctorCommand.add(
          findings, "health", "pass", "the daemon reports no trouble of its tiers and ledgers", "");
    }
  }
}

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
          cure(part));
    }
    if (report.troubles().isEmpty()) {
      DoctorCommand.add(
          findings, "health", "pass", "the daemon reports no trouble of its tiers and ledgers", "");
    }
  }

  private static String cure(String part) {
    return switch (part) {
      case "puts/drain" -> "kvtier drain --off, unless you are going to stop the daemon";
      case "host/ledger" ->
          "make host.directory writable: free space, check its permissions and its file system";
      case "host/keep" -> "read the daemon's log for the reason, and restart the daemon";
      case "object/load", "object/store", "object/probe" ->
          "check that the store can be reached, its credentials, and object.* in the configuration";
      case "object/ledger" ->
          "make the folder of the object tier's ledger writable: free space, check its permissions";
      default ->
          part.startsWith("ssd/")
              ? "look at the device and its file system (dmesg, df, smartctl); the daemon uses it"
                  + " again by itself once it works"
              : part.startsWith("gpu/")
                  ? "look at the GPU (nvidia-smi, dmesg), and restart the daemon"
                  : "";
    };
  }
}

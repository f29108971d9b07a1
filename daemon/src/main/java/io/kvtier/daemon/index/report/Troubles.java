package io.kvtier.daemon.index.report;

import io.kvtier.protocol.Counter;
import io.kvtier.tiers.gpu.GpuReport;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The parts of the daemon that do not do what they are there for, with the reason of each. Health
 * checks, metrics and the command line all show this list.
 */
final class Troubles {
  /**
   * One part.
   *
   * @param part ssd/DEVICE, host/keep, host/ledger, object/load, object/store, object/probe,
   *     object/ledger or gpu/NUMBER, and puts/drain where an operator wants it so
   */
  record Trouble(String part, String reason) {}

  private final List<Trouble> all = new ArrayList<>();

  /** The troubles that a report shows. */
  static List<Trouble> of(Report report) {
    Troubles troubles = new Troubles();
    troubles.drain(report.identity().drains());
    for (Report.Tier tier : report.storage().tiers()) {
      if (tier.trouble() != null) {
        troubles.ledger(tier.name(), tier.trouble());
      }
      if (tier.lower() != null) {
        List<Report.Device> devices = tier.lower().devices();
        for (int i = 0; i < devices.size(); i++) {
          troubles.device(tier.name(), i, devices.get(i).state(), devices.get(i).cause());
        }
      }
    }
    troubles.keeper(report.work().counters().getOrDefault(Counter.GAUGE_KEEPER_MISSING, 0L) != 0);
    if (report.storage().object() != null) {
      troubles.object(report.storage().object().fields());
    }
    for (GpuReport gpu : report.storage().gpus()) {
      if (gpu.fence() != null) {
        troubles.gpu(gpu.device().ordinal(), gpu.fence());
      }
    }
    return troubles.all;
  }

  List<Trouble> all() {
    return all;
  }

  void drain(boolean drains) {
    if (drains) {
      add("puts/drain", "the daemon is drained: it refuses new blocks until 'kvtier drain --off'");
    }
  }

  /**
   * Of a tier's ledger.
   *
   * @param cause empty while it can be written
   */
  void ledger(String tier, String cause) {
    if (!cause.isEmpty()) {
      add(
          tier + "/ledger",
          "the next start will not find blocks of new namespaces in memory: " + cause);
    }
  }

  /**
   * Of a device of a tier.
   *
   * @param state open, fenced or given_up
   * @param cause empty where none is known
   */
  void device(String tier, int device, String state, String cause) {
    if (!state.equals("open")) {
      add(
          tier + "/" + device,
          (state.equals("given_up")
                  ? "the device was given up, as it failed again and again: blocks leave memory"
                      + " without it, and it is tried again every few seconds"
                  : "the device is fenced after errors, and tried again soon")
              + because(cause));
    }
  }

  void keeper(boolean isMissing) {
    if (isMissing) {
      add(
          "host/keep",
          "no process keeps the memory (host.keep): the blocks in it are lost when the daemon ends;"
              + " the log says why");
    }
  }

  /**
   * Of the object tier.
   *
   * @param report its fields; empty where there is no such tier
   */
  void object(Map<String, Object> report) {
    way(report, "load", Boolean.FALSE.equals(report.get("takes_loads")));
    way(report, "store", Boolean.FALSE.equals(report.get("takes_stores")));
    way(report, "probe", false);
    String ledger = text(report, "ledger_trouble");
    if (!ledger.isEmpty()) {
      add(
          "object/ledger",
          "the presence ledger can't be used, and the store is asked for each block: " + ledger);
    }
  }

  private void way(Map<String, Object> report, String way, boolean isClosed) {
    String cause = text(report, way + "_trouble");
    if (isClosed || !cause.isEmpty()) {
      add("object/" + way, "the object store does not answer" + because(cause));
    }
  }

  void gpu(int gpu, String fence) {
    add("gpu/" + gpu, fence);
  }

  private void add(String part, String reason) {
    all.add(new Trouble(part, reason));
  }

  private static String because(String cause) {
    return cause.isEmpty() ? "" : ": " + cause;
  }

  private static String text(Map<String, Object> report, String field) {
    return report.get(field) instanceof String text ? text : "";
  }
}

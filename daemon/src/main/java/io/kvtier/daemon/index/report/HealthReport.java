package io.kvtier.daemon.index.report;

import java.util.List;

/**
 * The health of all parts of the daemon: every health check shows this report. Immutable; any
 * thread may read it.
 *
 * @param troubles the parts that do not work as they should
 */
public record HealthReport(List<Trouble> troubles) {
  /**
   * A part in trouble.
   *
   * @param part TIER/DETAIL or puts/DETAIL: ssd/0, host/ledger, object/store, gpu/1, puts/memory
   * @param reason what happens, with the cause if it is known
   * @param cure what an operator can do
   */
  public record Trouble(String part, String reason, String cure) {
    /** The area of the part: the name of a tier, gpu, or puts. */
    public String area() {
      int slash = part.indexOf('/');
      return slash < 0 ? part : part.substring(0, slash);
    }
  }

  /** All is well. */
  public static final HealthReport WELL = new HealthReport(List.of());

  public HealthReport {
    troubles = List.copyOf(troubles);
  }

  public boolean isDegraded() {
    return !troubles.isEmpty();
  }

  /** Whether no part of an area is in trouble. */
  public boolean isWell(String area) {
    return troubles.stream().noneMatch(trouble -> trouble.area().equals(area));
  }
}

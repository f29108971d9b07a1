package io.kvtier.client.internal.shared;

import io.kvtier.protocol.LoadReport;

/** Reports of loads, before they are sent. */
public final class LoadReports {
  private LoadReports() {}

  /** Refuses a report that no engine can have measured. */
  public static void check(LoadReport report) {
    String why = report.whyNot();
    if (why != null) {
      throw new IllegalArgumentException(why);
    }
  }
}

package io.kvtier.tiers.object.janitor;

/** A run ends here, before all was done. */
final class RunEnd extends Exception {
  private static final long serialVersionUID = 1;

  private final JanitorReport.State state;
  private final String reason;

  RunEnd(JanitorReport.State state, String reason) {
    super(reason);
    this.state = state;
    this.reason = reason;
  }

  JanitorReport.State state() {
    return state;
  }

  String reason() {
    return reason;
  }
}

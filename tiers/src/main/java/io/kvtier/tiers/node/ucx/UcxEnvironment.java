package io.kvtier.tiers.node.ucx;

import io.kvtier.protocol.linux.ProcessEnvironment;
import java.io.IOException;
import java.util.Map;

/** The variables of the environment that UCX needs in a JVM, before its library is loaded. */
final class UcxEnvironment {
  /**
   * The signals that UCX handles by an end of the process: none. The JVM itself uses SIGSEGV, for
   * checks of null. UCX takes the signals when it is loaded, so no later call can prevent that.
   */
  private static final Map<String, String> NEEDED = Map.of("UCX_ERROR_SIGNALS", "");

  /**
   * Over TCP, UCX's own values reach a third of the speed. UCX writes its messages to standard
   * output by itself, and the daemon's log goes to standard error. An operator's values count
   * first.
   */
  private static final Map<String, String> USUAL =
      Map.of(
          "UCX_LOG_FILE", "stderr",
          "UCX_TCP_TX_SEG_SIZE", "1m",
          "UCX_TCP_RX_SEG_SIZE", "1m",
          "UCX_TCP_SNDBUF", "4m",
          "UCX_TCP_RCVBUF", "4m");

  private UcxEnvironment() {}

  /** Sets the variables. */
  static void prepare() throws IOException {
    set(NEEDED, true);
    set(USUAL, false);
  }

  private static void set(Map<String, String> variables, boolean overwrites) throws IOException {
    for (Map.Entry<String, String> one : variables.entrySet()) {
      ProcessEnvironment.set(one.getKey(), one.getValue(), overwrites);
    }
  }
}

package io.kvtier.cli;

import picocli.CommandLine.Option;

/** How much is handed to other nodes, and for how long. */
final class HandOverOptions {
  /** The other options need it; the group is there only if this option is. */
  @SuppressWarnings("UnusedVariable")
  @Option(
      names = "--to-nodes",
      required = true,
      description =
          "Hands the blocks in memory to the other nodes that the daemon is connected to. They need"
              + " a token with the role write.")
  private boolean isAsked;

  @Option(
      names = "--deadline",
      paramLabel = "SECONDS",
      defaultValue = "60",
      description =
          "How long blocks are handed over. The end of a block that is being sent then is awaited"
              + " for up to 20 seconds more. Default: ${DEFAULT-VALUE}.")
  private double deadlineSeconds;

  @Option(
      names = "--bytes-max",
      paramLabel = "SIZE",
      defaultValue = "",
      description = "How much may be pushed, such as 10GiB. Default: all blocks.")
  private String bytesMax;

  /** The command to the daemon. */
  String command() {
    if (!(deadlineSeconds >= 0.001 && deadlineSeconds <= 86_400)) {
      throw new Failure(
          Failure.USAGE, "--deadline is " + deadlineSeconds + ", expected 0.001 to 86400 seconds");
    }
    return "nodes drain " + Math.max(1, Math.round(deadlineSeconds * 1000)) + " " + bytes();
  }

  private long bytes() {
    try {
      return bytesMax.isEmpty() ? Long.MAX_VALUE : Units.parseBytes(bytesMax);
    } catch (IllegalArgumentException e) {
      throw new Failure(Failure.USAGE, "--bytes-max is " + e.getMessage());
    }
  }
}

package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Makes a daemon ready to be stopped. */
@Command(
    name = "drain",
    description = {
      "Prepares the daemon for a stop: it refuses new blocks (puts end with NOT_ADMITTED) and"
          + " writes blocks that are only in memory to the tier below. Reads continue.",
      "With --to-nodes, it hands the blocks in memory to the connected nodes instead:"
          + " retained blocks first, then those that would leave memory last. The blocks also stay"
          + " in this daemon's memory.",
      "The drain lasts until 'drain --off' or the end of the daemon. Needs the role admin."
    },
    footer = {
      "",
      "Exit code: 0 if every block is in a lower tier, else 1, also if there is no lower tier. With"
          + " --to-nodes, 0 if other nodes have every block, or as many as --bytes-max allows, else"
          + " 1."
    })
final class DrainCommand extends FlushingCommand {
  @Mixin private Confirmation confirmation;

  @Option(
      names = "--off",
      description =
          "Ends the drain: the daemon takes new blocks again, and hands no more to other nodes.")
  private boolean off;

  @ArgGroup(exclusive = false)
  private @Nullable HandOverOptions toNodes;

  @Override
  int run(KvtierClient client) {
    if (off) {
      say(ask(client, "drain off"));
      return 0;
    }
    HandOver handOver = toNodes == null ? null : new HandOver(this, client, toNodes.command());
    confirmation.require("Refuse new blocks from now on");
    if (handOver != null) {
      handOver.requireNode();
    }
    String answer = ask(client, "drain on");
    if (!isJson()) {
      line(answer);
    }
    boolean isDone = handOver == null ? flush(client, null) : handOver.run();
    return isDone ? 0 : Failure.NEGATIVE;
  }
}

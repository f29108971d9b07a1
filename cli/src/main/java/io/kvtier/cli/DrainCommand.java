package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Makes a daemon ready to be stopped. */
@Command(
    name = "drain",
    description = {
      "Prepares the daemon for a stop: it refuses new blocks (puts end with NOT_ADMITTED) and"
          + " writes blocks that are only in memory to the tier below. Reads continue.",
      "The drain lasts until 'drain --off' or the end of the daemon. Needs the role admin."
    },
    footer = {
      "",
      "Exit code: 0 if every block is in a lower tier, else 1, also if there is no lower tier."
    })
final class DrainCommand extends FlushingCommand {
  @Mixin private Confirmation confirmation;

  @Option(names = "--off", description = "Ends the drain: the daemon takes new blocks again.")
  private boolean off;

  @Override
  int run(KvtierClient client) {
    if (off) {
      say(ask(client, "drain off"));
      return 0;
    }
    confirmation.require("Refuse new blocks from now on");
    String answer = ask(client, "drain on");
    if (!isJson()) {
      line(answer);
    }
    return flush(client, null) ? 0 : Failure.NEGATIVE;
  }
}

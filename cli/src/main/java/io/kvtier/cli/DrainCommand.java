package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Makes a daemon ready to be stopped. */
@Command(
    name = "drain",
    description = {
      "Makes the daemon ready to be stopped: it takes no new blocks any more (puts end with"
          + " NOT_ADMITTED), and what is only in memory is written to the tier below. Reads go on.",
      "It stays so until 'drain --off' or the daemon's end. Needs the role admin."
    },
    footer = {
      "",
      "Ends with 0 when all is below memory, with 1 otherwise: also where there is no tier below."
    })
final class DrainCommand extends FlushingCommand {
  @Mixin private Confirmation confirmation;

  @Option(names = "--off", description = "Takes new blocks again.")
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

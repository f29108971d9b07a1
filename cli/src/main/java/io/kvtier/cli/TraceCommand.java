package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Records what is looked up, for the simulator. */
@Command(
    name = "trace",
    mixinStandardHelpOptions = true,
    description = "Records the lookups of a running daemon as a trace for 'kvtier simulate'.",
    subcommands = {TraceCommand.RecordCommand.class, TraceCommand.StopCommand.class})
final class TraceCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "say record or stop");
  }

  /** Begins. */
  @Command(
      name = "record",
      description = {
        "Begins to record every lookup: its time, and its keys mixed with a salt that is not kept.",
        "The file is compressed; the daemon writes it, where its user may. As a service it has a"
            + " /tmp of its own and may write below /var/lib/kvtier: take that."
      })
  static final class RecordCommand extends DaemonCommand {
    @Parameters(paramLabel = "FILE", description = "A file that is not there yet.")
    private @Nullable Path file;

    @Option(
        names = "--max-requests",
        paramLabel = "N",
        defaultValue = "1000000",
        description = "Ends after so many lookups. Default: ${DEFAULT-VALUE}.")
    private long requestsMax;

    @Override
    int run(KvtierClient client) {
      if (file == null || requestsMax < 1) {
        throw new Failure(
            Failure.USAGE, "--max-requests is " + requestsMax + ", expected 1 or more");
      }
      say(ask(client, "trace record " + requestsMax + " " + file.toAbsolutePath()));
      return 0;
    }
  }

  /** Ends. */
  @Command(name = "stop", description = "Ends the recording; says what is in the file.")
  static final class StopCommand extends DaemonCommand {
    @Override
    int run(KvtierClient client) {
      say(ask(client, "trace stop"));
      return 0;
    }
  }
}

package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
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
  private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(60);
  private static final long LOOK_MS = 50;

  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(), "'kvtier trace' needs a subcommand: record or stop");
  }

  /** Gives a command, and asks with another until the daemon's file is open, or whole. */
  private static String await(KvtierClient client, String command, String again) {
    long end = System.nanoTime() + WAIT_NS;
    TextResult answer = client.blocking().admin(command);
    while (answer.status() == Status.PENDING) {
      if (System.nanoTime() - end > 0) {
        throw new Failure(
            Failure.NEGATIVE, answer.text() + "; 'kvtier trace stop' tells the result");
      }
      sleep();
      answer = client.blocking().admin(again);
    }
    return DaemonCommand.answered(answer);
  }

  private static void sleep() {
    try {
      Thread.sleep(LOOK_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(Failure.NEGATIVE, "interrupted; the daemon goes on writing");
    }
  }

  /** Begins. */
  @Command(
      name = "record",
      description = {
        "Starts to record every lookup: its time and its keys. Keys are mixed with a random salt"
            + " that is not kept.",
        "The daemon writes the file, compressed, so its user must be able to write there. The"
            + " service has a /tmp of its own and can write below /var/lib/kvtier: use that folder."
      })
  static final class RecordCommand extends DaemonCommand {
    @Parameters(paramLabel = "FILE", description = "A file that does not exist yet.")
    private @Nullable Path file;

    @Option(
        names = "--max-requests",
        paramLabel = "N",
        defaultValue = "1000000",
        description = "Stops after N lookups. Default: ${DEFAULT-VALUE}.")
    private long requestsMax;

    @Override
    int run(KvtierClient client) {
      if (file == null || requestsMax < 1) {
        throw new Failure(
            Failure.USAGE, "--max-requests is " + requestsMax + ", expected 1 or more");
      }
      String command = "trace record " + requestsMax + " " + file.toAbsolutePath();
      say(await(client, command, "trace status"));
      return 0;
    }
  }

  /** Ends. */
  @Command(
      name = "stop",
      description =
          "Stops the recording, waits until the file is complete, and says what it contains.")
  static final class StopCommand extends DaemonCommand {
    @Override
    int run(KvtierClient client) {
      say(await(client, "trace stop", "trace stop"));
      return 0;
    }
  }
}

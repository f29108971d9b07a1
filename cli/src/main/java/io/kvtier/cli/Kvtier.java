package io.kvtier.cli;

import io.kvtier.client.KvtierException;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Machine;
import java.io.PrintWriter;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.UnmatchedArgumentException;

/** The {@code kvtier} command. */
@Command(
    name = "kvtier",
    versionProvider = Kvtier.Version.class,
    mixinStandardHelpOptions = true,
    description = "Shows what a running kvtierd does, operates it, and simulates its policies.",
    subcommands = {
      StatusCommand.class,
      TiersCommand.class,
      StatsCommand.class,
      TopCommand.class,
      SessionsCommand.class,
      NamespacesCommand.class,
      LookupCommand.class,
      InspectCommand.class,
      PinCommand.class,
      PinCommand.Un.class,
      EvictCommand.class,
      DeleteCommand.class,
      ClearCommand.class,
      FlushCommand.class,
      DrainCommand.class,
      PolicyCommand.class,
      NodesCommand.class,
      PluginsCommand.class,
      WhatIfCommand.class,
      SimulateCommand.class,
      TraceCommand.class,
      TokenCommand.class,
      ObjectCommand.class,
      ConfigCommand.class,
      ReloadCommand.class,
      EventsCommand.class,
      BenchCommand.class,
      DoctorCommand.class,
      ReportCommand.class,
      CommandLine.HelpCommand.class
    },
    footer = {
      "",
      "Exit codes: 0 success, 1 a negative answer, 2 wrong usage, 3 no daemon.",
      "Some commands need the role admin. Root, the daemon's user, and the users and groups that"
          + " socket.users and socket.groups name as admin have it."
    })
public final class Kvtier implements Runnable {
  /** The version of the jar. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = number();
      return new String[] {"kvtier " + (version.isEmpty() ? "from a build folder" : version)};
    }

    /** The version of the jar; empty if the program runs without a jar. */
    static String number() {
      String version = Kvtier.class.getPackage().getImplementationVersion();
      return version == null ? "" : version;
    }
  }

  @Spec private CommandSpec spec;

  private Kvtier() {}

  /** Runs one command. */
  public static void main(String[] arguments) {
    System.exit(commandLine().execute(arguments));
  }

  /** Runs one command inside this program; returns its exit code. */
  public static int run(PrintWriter out, PrintWriter err, String... arguments) {
    CommandLine command = commandLine();
    command.setOut(out);
    command.setErr(err);
    return command.execute(arguments);
  }

  /** The command with all its parts. */
  static CommandLine commandLine() {
    CommandLine commandLine = new CommandLine(new Kvtier());
    commandLine.setExecutionExceptionHandler((e, failed, parsed) -> {
      int exitCode = exitCode(e);
      failed.getErr().println("kvtier: " + Printable.linesOf(String.valueOf(e.getMessage())));
      if (exitCode == Failure.NO_DAEMON) {
        InstalledService.ofThisMachine().cure().ifPresent(failed.getErr()::println);
      }
      failed.getErr().flush();
      return exitCode;
    });
    commandLine.setParameterExceptionHandler((e, arguments) -> {
      CommandLine failed = e.getCommandLine();
      // The whole usage would bury the reason.
      failed.getErr().println("kvtier: " + Printable.linesOf(String.valueOf(e.getMessage())));
      UnmatchedArgumentException.printSuggestions(e, failed.getErr());
      if (arguments.length > 0 && arguments[0].startsWith("--socket")) {
        failed.getErr().println("put --socket PATH after the command, or set KVTIER_SOCKET");
      }
      failed.getErr().println("see '" + failed.getCommandSpec().qualifiedName() + " --help'");
      failed.getErr().flush();
      return failed.getCommandSpec().exitCodeOnInvalidInput();
    });
    return commandLine;
  }

  /**
   * The exit code of an exception that explains itself. Any other exception is a defect, and is
   * thrown again.
   */
  static int exitCode(Exception e) throws Exception {
    return switch (e) {
      case Failure failure -> failure.exitCode();
      case KvtierException refused ->
          refused.status() == Status.UNAVAILABLE ? Failure.NO_DAEMON : Failure.NEGATIVE;
      // Of a client in shared memory; one over gRPC runs anywhere.
      case UnsupportedOperationException _ when Machine.refusal() != null -> Failure.NEGATIVE;
      default -> throw e;
    };
  }

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "a command is missing");
  }
}

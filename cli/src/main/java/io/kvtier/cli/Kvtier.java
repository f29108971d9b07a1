package io.kvtier.cli;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The {@code kvtier} command. */
@Command(
    name = "kvtier",
    versionProvider = Kvtier.Version.class,
    mixinStandardHelpOptions = true,
    description = "Looks into a running kvtierd, and simulates its policies.",
    subcommands = {
      StatusCommand.class,
      TiersCommand.class,
      StatsCommand.class,
      LookupCommand.class,
      PolicyCommand.class,
      ObjectCommand.class,
      WhatIfCommand.class,
      TraceCommand.class,
      TokenCommand.class,
      SimulateCommand.class
    },
    footer = {"", "Exit codes: 0 done, 1 a negative answer, 2 wrong usage, 3 no daemon."})
public final class Kvtier implements Runnable {
  /** The version of the jar. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = Kvtier.class.getPackage().getImplementationVersion();
      return new String[] {"kvtier " + (version == null ? "from a build folder" : version)};
    }
  }

  @Spec private CommandSpec spec;

  private Kvtier() {}

  /** Runs one command. */
  public static void main(String[] arguments) {
    System.exit(commandLine().execute(arguments));
  }

  /** The command with all its parts. */
  static CommandLine commandLine() {
    CommandLine commandLine = new CommandLine(new Kvtier());
    commandLine.setExecutionExceptionHandler((e, failed, parsed) -> {
      if (e instanceof Failure failure) {
        failed.getErr().println("kvtier: " + failure.getMessage());
        failed.getErr().flush();
        return failure.exitCode();
      }
      throw e;
    });
    return commandLine;
  }

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "which command?");
  }
}

package io.kvtier.cli;

import java.io.Console;
import java.util.Locale;
import picocli.CommandLine.Option;

/** What is asked before something is done that can't be undone. */
final class Confirmation {
  @Option(
      names = {"-y", "--yes"},
      description =
          "Does not ask for confirmation. Scripts need this option: without a terminal, a command"
              + " that must ask fails.")
  private boolean yes;

  /** Goes on when the operator agrees. */
  void require(String what) {
    if (yes) {
      return;
    }
    Console console = DaemonCommand.console();
    if (console == null) {
      throw new Failure(Failure.USAGE, what + "? Nobody can be asked here: add --yes to confirm");
    }
    String answer = console.readLine("%s? [y/N] ", what);
    if (answer == null || !answer.strip().toLowerCase(Locale.ROOT).matches("y|yes")) {
      throw new Failure(Failure.NEGATIVE, "nothing was done");
    }
  }
}

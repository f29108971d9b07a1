package io.kvtier.cli;

import java.io.PrintWriter;
import java.io.StringWriter;
import picocli.CommandLine;

/** A command that was run in this process: how it ended, and what it printed. */
record Ran(int exitCode, String out, String err) {
  static Ran run(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    CommandLine command = Kvtier.commandLine();
    command.setOut(new PrintWriter(out));
    command.setErr(new PrintWriter(err));
    int exitCode = command.execute(arguments);
    return new Ran(exitCode, out.toString(), err.toString());
  }
}

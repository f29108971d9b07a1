package io.kvtier.cli;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's own program, run for what only it can tell without a daemon: whether a configuration
 * is right, and what this machine can do. So there is one code that judges.
 */
final class KvtierdProcess {
  /** Names the program where it is not found by itself. */
  static final String VARIABLE = "KVTIERD";

  /** The same for who runs the command inside another program. */
  static final String PROPERTY = "kvtier.kvtierd";

  private static final Duration LIMIT = Duration.ofMinutes(2);

  private KvtierdProcess() {}

  /** Runs it, and waits. */
  static Program.Ran run(List<String> arguments) {
    return run(System.getenv(), arguments);
  }

  /** The same with another environment. */
  static Program.Ran run(Map<String, String> environment, List<String> arguments) {
    String program = program();
    List<String> command = new ArrayList<>();
    command.add(program);
    command.addAll(arguments);
    try {
      Program.Ran ran = Program.run(LIMIT, environment, command);
      if (!ran.isInTime()) {
        throw new Failure(
            Failure.NEGATIVE,
            "'"
                + program
                + "' did not end within "
                + LIMIT.toSeconds()
                + " s; it said: "
                + ran.err());
      }
      return ran;
    } catch (IOException e) {
      throw new Failure(Failure.NEGATIVE, "'" + program + "' can't be run: " + e.getMessage());
    }
  }

  /** What the property or the variable names, else what is on the path. */
  private static String program() {
    String named = System.getProperty(PROPERTY, System.getenv(VARIABLE));
    if (named != null && !named.isEmpty()) {
      return named;
    }
    String path = System.getenv("PATH");
    for (String folder : (path == null ? "" : path).split(File.pathSeparator, -1)) {
      String found = executable(folder);
      if (found != null) {
        return found;
      }
    }
    throw new Failure(
        Failure.NEGATIVE,
        "the program kvtierd, which checks configurations and machines, is not found: install it,"
            + " add its folder to PATH, or set "
            + VARIABLE
            + " to its path");
  }

  private static @Nullable String executable(String folder) {
    Path path = Path.of(folder.isEmpty() ? "." : folder, "kvtierd");
    return Files.isExecutable(path) && !Files.isDirectory(path) ? path.toString() : null;
  }
}

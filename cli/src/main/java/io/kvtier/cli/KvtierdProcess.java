package io.kvtier.cli;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
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

  private static final long TIMEOUT_S = 120;
  private static final File NULL = new File("/dev/null");

  /** How a run ended, and what it printed. */
  record Ran(int exitCode, String out, String err) {}

  private KvtierdProcess() {}

  /** Runs it, and waits. */
  static Ran run(List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(program());
    command.addAll(arguments);
    try {
      Process process =
          new ProcessBuilder(command).redirectInput(ProcessBuilder.Redirect.from(NULL)).start();
      CompletableFuture<String> err =
          CompletableFuture.supplyAsync(() -> text(process.getErrorStream()));
      String out = text(process.getInputStream());
      if (!process.waitFor(TIMEOUT_S, TimeUnit.SECONDS)) {
        process.destroy();
        throw new Failure(Failure.NEGATIVE, "'" + command.getFirst() + "' does not end");
      }
      return new Ran(process.exitValue(), out, err.join());
    } catch (IOException e) {
      throw new Failure(
          Failure.NEGATIVE, "'" + command.getFirst() + "' can't be run: " + e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(Failure.NEGATIVE, "interrupted");
    }
  }

  private static String text(InputStream in) {
    try (in) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      return "";
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
        "kvtierd is not found: install it, put it on the PATH, or set "
            + VARIABLE
            + " to its path; it is what judges configurations and machines");
  }

  private static @Nullable String executable(String folder) {
    Path path = Path.of(folder.isEmpty() ? "." : folder, "kvtierd");
    return Files.isExecutable(path) && !Files.isDirectory(path) ? path.toString() : null;
  }
}

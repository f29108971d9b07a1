package io.kvtier.cli;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Another program, which is run without input and waited for. It writes into files: a pipe would be
 * held open by whatever it leaves behind, and who reads it to its end waits for that, too.
 */
final class Program {
  private static final File NULL = new File("/dev/null");

  /**
   * How a run went.
   *
   * @param isInTime false: it was ended at its limit
   * @param out what it printed, until then
   */
  record Ran(boolean isInTime, int exitCode, String out, String err) {
    boolean isWell() {
      return isInTime && exitCode == 0;
    }
  }

  private Program() {}

  /**
   * Runs a program, with this process's environment.
   *
   * @throws IOException where it can't be run
   */
  static Ran run(Duration limit, String... command) throws IOException {
    return run(limit, System.getenv(), List.of(command));
  }

  /** The same with another environment. */
  static Ran run(Duration limit, Map<String, String> environment, List<String> command)
      throws IOException {
    Path out = Files.createTempFile("kvtier-", ".out");
    Path err = Files.createTempFile("kvtier-", ".err");
    try {
      ProcessBuilder builder =
          new ProcessBuilder(command)
              .redirectInput(NULL)
              .redirectOutput(out.toFile())
              .redirectError(err.toFile());
      builder.environment().clear();
      builder.environment().putAll(environment);
      Process process = builder.start();
      boolean isInTime = process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS);
      if (!isInTime) {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
      }
      return new Ran(isInTime, isInTime ? process.exitValue() : -1, text(out), text(err));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } finally {
      Files.deleteIfExists(out);
      Files.deleteIfExists(err);
    }
  }

  private static String text(Path file) throws IOException {
    return new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
  }
}

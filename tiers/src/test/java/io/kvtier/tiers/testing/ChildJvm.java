package io.kvtier.tiers.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A JVM with this one's flags and class path. */
public final class ChildJvm {
  private ChildJvm() {}

  /** Runs a main class, and tells what it prints, until it ends by itself. */
  public static String run(Class<?> main, String... arguments)
      throws IOException, InterruptedException {
    Process process = start(main, arguments);
    try {
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      process.waitFor();
      return output;
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  /**
   * Runs a main class until it has printed so many lines, then kills it. Its lines are numbers.
   *
   * @return the last whole number that it printed, which may be later than the one waited for
   */
  public static long killAfterLines(Class<?> main, int lines, String... arguments)
      throws IOException, InterruptedException {
    Process process = start(main, arguments);
    long last = -1;
    try (BufferedReader output = process.inputReader(StandardCharsets.US_ASCII)) {
      for (int i = 0; i < lines; i++) {
        String line = output.readLine();
        if (line == null) {
          throw new IOException("the process ended by itself after " + i + " lines");
        }
        last = Long.parseLong(line);
      }
      // Not the process's own method, which closes the stream as well.
      process.toHandle().destroyForcibly();
      // What it had printed until then. A line that was cut off would be taken for a smaller one.
      String rest;
      while ((rest = output.readLine()) != null) {
        if (rest.length() >= String.valueOf(last).length()) {
          last = Math.max(last, Long.parseLong(rest));
        }
      }
    } finally {
      process.destroyForcibly().waitFor();
    }
    return last;
  }

  private static Process start(Class<?> main, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
      if (!flag.startsWith("-agentlib") && !flag.startsWith("-javaagent")) {
        command.add(flag);
      }
    }
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(List.of(arguments));
    return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
  }
}

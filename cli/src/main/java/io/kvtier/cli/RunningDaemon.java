package io.kvtier.cli;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A daemon's process, as the kernel tells of it to root and to the daemon's own user: what it was
 * started with, and what its threads do where it does not answer any more.
 */
final class RunningDaemon {
  /** Of the process, and no key: the options of its JVM are not for another one. */
  private static final String JAVA_OPTIONS = "KVTIERD_JAVA_OPTS";

  private static final Duration QUIT_LIMIT = Duration.ofSeconds(20);
  private static final long LOOK_MS = 50;

  /** Until a JVM has most likely written to what can't be read here. */
  private static final long UNSEEN_MS = 1000;

  /** The last line of what a JVM writes at SIGQUIT, but for its heap. */
  private static final String LAST_LINE = "JNI global refs";

  private final long pid;

  RunningDaemon(long pid) {
    this.pid = pid;
  }

  /**
   * The environment in which a program sees the settings and the credentials that the daemon sees;
   * null where this user may not know them.
   */
  @Nullable Map<String, String> environment() {
    String text = read("environ");
    if (text == null) {
      return null;
    }
    Map<String, String> mixed = new HashMap<>(System.getenv());
    mixed.keySet().removeIf(RunningDaemon::isOfTheDaemon);
    for (String variable : text.split("\0", -1)) {
      int equals = variable.indexOf('=');
      if (equals > 0 && isOfTheDaemon(variable.substring(0, equals))) {
        mixed.put(variable.substring(0, equals), variable.substring(equals + 1));
      }
    }
    return mixed;
  }

  private static boolean isOfTheDaemon(String name) {
    return (name.startsWith("KVTIERD_") && !name.equals(JAVA_OPTIONS)) || name.startsWith("AWS_");
  }

  /**
   * What kvtierd's {@code config show} has to be told to read what the daemon has read: a file, if
   * there is one, and settings. Null where its command line is not that of a daemon.
   */
  @Nullable List<String> configuration() {
    String text = read("cmdline");
    if (text == null || !isDaemon(text)) {
      return null;
    }
    return configuration(List.of(text.split("\0", -1)));
  }

  /** The same of words. */
  static List<String> configuration(List<String> words) {
    List<String> told = new ArrayList<>();
    for (int i = 0; i < words.size(); i++) {
      String word = words.get(i);
      int equals = word.indexOf('=');
      String option = equals < 0 ? word : word.substring(0, equals);
      if (!List.of("--config", "--set", "--socket").contains(option)) {
        continue;
      }
      if (equals < 0 && i + 1 == words.size()) {
        break; // nothing is told by an option without its value
      }
      String value = equals >= 0 ? word.substring(equals + 1) : words.get(++i);
      switch (option) {
        case "--config" -> told.addFirst(value);
        case "--set" -> told.addAll(List.of("--set", value));
        default -> told.addAll(List.of("--set", "socket.path=" + value));
      }
    }
    return told;
  }

  private static boolean isDaemon(String commandLine) {
    return commandLine.contains("kvtierd") || commandLine.contains("io.kvtier.daemon.Kvtierd");
  }

  /**
   * What its threads do, from its JVM, which answers when the daemon's index does not. By a JDK's
   * jcmd where there is one; else by SIGQUIT, at which the JVM writes it where the daemon's output
   * goes.
   */
  String threads() {
    try {
      Program.Ran ran = Program.run(QUIT_LIMIT, "jcmd", Long.toString(pid), "Thread.print");
      if (ran.isWell()) {
        return ran.out();
      }
    } catch (IOException e) {
      // There is no JDK: the packages have a runtime alone.
      return threadsByQuit();
    }
    return threadsByQuit();
  }

  /** The same, without jcmd. */
  String threadsByQuit() {
    String commandLine = read("cmdline");
    if (commandLine == null || !isDaemon(commandLine)) {
      return "process " + pid + " is no kvtierd that this user may ask";
    }
    try {
      // As it is: what it leads to has no path where it is a pipe, or a file that was deleted.
      Path output = Path.of("/proc", Long.toString(pid), "fd", "1");
      boolean isFile = Files.isRegularFile(output);
      long before = isFile ? Files.size(output) : 0;
      Program.Ran kill = Program.run(QUIT_LIMIT, "kill", "-QUIT", Long.toString(pid));
      if (!kill.isWell()) {
        return "SIGQUIT was not sent: " + kill.err();
      }
      if (isFile) {
        return writtenTo(output, before);
      }
      Thread.sleep(UNSEEN_MS);
    } catch (IOException e) {
      return "the threads could not be asked for: " + e.getMessage();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return "asked for by SIGQUIT: the JVM has written them where the daemon's output goes, which is"
        + " the journal for a service; see the end of log.txt";
  }

  /** What has been written behind a place; what stands before it is of another time. */
  private static String writtenTo(Path output, long before)
      throws IOException, InterruptedException {
    long start = System.nanoTime();
    String text = ProcessFiles.tail(output, before);
    while (!text.contains(LAST_LINE) && System.nanoTime() - start < QUIT_LIMIT.toNanos()) {
      Thread.sleep(LOOK_MS);
      text = ProcessFiles.tail(output, before);
    }
    return text;
  }

  private @Nullable String read(String name) {
    try {
      byte[] bytes = Files.readAllBytes(Path.of("/proc", Long.toString(pid), name));
      return new String(bytes, StandardCharsets.UTF_8);
    } catch (IOException e) {
      return null;
    }
  }
}

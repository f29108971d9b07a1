package io.kvtier.systemtests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A real daemon in a process of its own. */
final class TestDaemon implements AutoCloseable {
  private static final long START_NS = TimeUnit.SECONDS.toNanos(120);

  private final Process process;
  private final Path socket;

  private TestDaemon(Process process, Path socket) {
    this.process = process;
    this.socket = socket;
  }

  /**
   * Starts a daemon and waits until it is ready.
   *
   * @param folder for its socket, its SSD files and its log
   */
  static TestDaemon start(Path folder, String... settings) {
    return start(folder, Map.of(), List.of(), settings);
  }

  /**
   * Starts a daemon with an environment and further words on its command line.
   *
   * @param environment variables in addition to those of this process
   */
  static TestDaemon start(
      Path folder, Map<String, String> environment, List<String> words, String... settings) {
    Path socket = folder.resolve("k.sock");
    Path log = folder.resolve("daemon.log");
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "--enable-native-access=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-cp",
            classPath(),
            "io.kvtier.daemon.Kvtierd",
            "--socket",
            socket.toString(),
            "--set",
            "grpc.enabled=false",
            "--set",
            "http.enabled=false",
            "--set",
            "host.keep=0",
            "--set",
            "ssd.directory=" + folder.resolve("ssd")));
    command.addAll(words);
    for (String setting : settings) {
      command.add("--set");
      command.add(setting);
    }
    try {
      Files.deleteIfExists(log);
      ProcessBuilder builder =
          new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile());
      builder.environment().putAll(environment);
      Process process = builder.start();
      TestDaemon daemon = new TestDaemon(process, socket);
      long end = System.nanoTime() + START_NS;
      while (!isReady(log)) {
        if (!process.isAlive() || System.nanoTime() - end > 0) {
          daemon.kill();
          throw new IllegalStateException("the daemon did not start: " + Files.readString(log));
        }
        pause(20);
      }
      return daemon;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static String classPath() {
    return System.getProperty(
        "surefire.test.class.path", System.getProperty("java.class.path", ""));
  }

  private static boolean isReady(Path log) throws IOException {
    try (BufferedReader lines = Files.newBufferedReader(log)) {
      return lines.lines().anyMatch(line -> line.startsWith("kvtierd ready"));
    }
  }

  static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  Path socket() {
    return socket;
  }

  long pid() {
    return process.pid();
  }

  /** Ends it as a crash does, and waits until it is gone. */
  void kill() {
    process.destroyForcibly();
    try {
      if (!process.waitFor(60, TimeUnit.SECONDS)) {
        throw new IllegalStateException("process " + pid() + " does not die");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Makes it hang, with STOP, or go on, with CONT. */
  void signal(String name) {
    try {
      int code = new ProcessBuilder("kill", "-" + name, Long.toString(pid())).start().waitFor();
      if (code != 0) {
        throw new IllegalStateException("kill -" + name + " ended with " + code);
      }
      while (name.equals("STOP") && !isStopped()) {
        pause(1);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Whether each of its threads is stopped: the signal takes a moment to reach them all. */
  private boolean isStopped() throws IOException {
    try (Stream<Path> tasks = Files.list(Path.of("/proc/" + pid() + "/task"))) {
      for (Path task : tasks.toList()) {
        String stat = Files.readString(task.resolve("stat"));
        // pid (name) state ...; the name may hold anything.
        if (stat.charAt(stat.lastIndexOf(')') + 2) != 'T') {
          return false;
        }
      }
      return true;
    }
  }

  @Override
  public void close() {
    if (process.isAlive()) {
      kill();
    }
  }
}

package io.kvtier.cli;

import io.kvtier.protocol.Secrets;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.StringJoiner;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What the kernel knows of the daemon's process and of the machine, for a report. */
final class ProcessFiles {
  private static final int LOG_BYTES = 512 << 10;
  private static final Duration LIMIT = Duration.ofSeconds(20);

  private static final List<String> OF_PROCESS = List.of("limits", "status", "cgroup", "io");

  private static final List<String> OF_MACHINE =
      List.of(
          "/etc/os-release",
          "/proc/version",
          "/proc/meminfo",
          "/proc/loadavg",
          "/proc/uptime",
          "/proc/mounts",
          "/proc/pressure/memory",
          "/proc/pressure/io",
          "/sys/kernel/mm/transparent_hugepage/enabled",
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
          "/proc/sys/kernel/io_uring_disabled",
          "/proc/sys/vm/overcommit_memory",
          "/proc/driver/nvidia/version");

  private ProcessFiles() {}

  /**
   * Adds them, and notes the secrets of the daemon's environment.
   *
   * @param pid 0 where there is no daemon
   */
  static void add(ReportFiles files, long pid) throws IOException {
    StringBuilder machine = new StringBuilder();
    OF_MACHINE.forEach(path -> section(machine, path, text(Path.of(path))));
    section(machine, "df", output("df", "-h"));
    section(machine, "nproc", String.valueOf(Runtime.getRuntime().availableProcessors()));
    section(machine, "java", System.getProperty("java.vm.version", "?"));
    files.add("machine.txt", machine.toString());
    environment(
        System.getenv().entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()), files);
    if (pid == 0) {
      return;
    }
    Path folder = Path.of("/proc", Long.toString(pid));
    StringBuilder process = new StringBuilder();
    OF_PROCESS.forEach(name -> section(process, name, text(folder.resolve(name))));
    section(process, "cmdline", commandLine(text(folder.resolve("cmdline"))));
    String environment = text(folder.resolve("environ"));
    section(
        process, "environment", environment(List.of(environment.split("\0", -1)).stream(), files));
    files.add("process.txt", process.toString());
  }

  /** The words of a process without secrets: each by itself, as a value may have blanks. */
  static String commandLine(String words) {
    StringJoiner shown = new StringJoiner(" ");
    for (String word : words.split("\0", -1)) {
      String option = word.startsWith("--set=") ? "--set=" : "";
      int equals = word.indexOf('=', option.length());
      shown.add(
          equals < 0
              ? word
              : word.substring(0, equals + 1)
                  + Secrets.hide(
                      word.substring(option.length(), equals), word.substring(equals + 1)));
    }
    return shown.toString();
  }

  /** The daemon's own variables; what is secret of the others is noted. */
  private static String environment(Stream<String> variables, ReportFiles files) {
    StringBuilder shown = new StringBuilder();
    variables
        .sorted()
        .forEach(variable -> {
          int equals = variable.indexOf('=');
          if (equals > 0) {
            String name = variable.substring(0, equals);
            String value = variable.substring(equals + 1);
            if (Secrets.isSecret(name)) {
              files.hide(value);
            }
            if (name.startsWith("KVTIER")) {
              shown.append(name).append('=').append(Secrets.hide(name, value)).append('\n');
            }
          }
        });
    return shown.toString();
  }

  /** The end of the daemon's log. */
  static String log(@Nullable Path named, long pid, int lines) {
    if (named != null) {
      return tail(named);
    }
    Path stderr = Path.of("/proc", Long.toString(pid), "fd", "2");
    // Else it is a terminal, a pipe, or another user's: the journal may have it.
    return pid != 0 && Files.isRegularFile(stderr) ? tail(stderr) : journal(lines);
  }

  private static String journal(int lines) {
    return output(
        "journalctl",
        "-u",
        "kvtierd",
        "-n",
        Integer.toString(lines),
        "--no-pager",
        "-o",
        "short-iso");
  }

  /** The end of a file. */
  private static String tail(Path path) {
    try {
      return tail(path, 0);
    } catch (IOException e) {
      return "'" + path + "' can't be read: " + e.getMessage();
    }
  }

  /** The end of a file, from a place at the earliest; from its beginning where it is shorter. */
  static String tail(Path path, long from) throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "r")) {
      long length = file.length();
      long written = from <= length ? length - from : length;
      byte[] bytes = new byte[(int) Math.min(LOG_BYTES, written)];
      file.seek(length - bytes.length);
      file.readFully(bytes);
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }

  /** What a program prints; why not, where it can't be run. */
  static String output(String... command) {
    try {
      Program.Ran ran = Program.run(LIMIT, command);
      return ran.out()
          + ran.err()
          + (ran.isInTime() ? "" : command[0] + " was ended after " + LIMIT.toSeconds() + " s");
    } catch (IOException e) {
      return command[0] + " can't be run: " + e.getMessage();
    }
  }

  private static void section(StringBuilder out, String name, String text) {
    out.append("== ").append(name).append('\n').append(text.strip()).append("\n\n");
  }

  private static String text(Path path) {
    try {
      return Files.readString(path);
    } catch (IOException e) {
      return "(can't be read: " + e.getClass().getSimpleName() + ")";
    }
  }
}

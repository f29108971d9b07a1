package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The limit of a disk: {@code fio} with direct IO on one file. */
final class Fio {
  private static final String[] ENGINES = {"io_uring", "libaio"};
  private static final int MS_PER_S = 1000;

  private final Path file;
  private final long fileBytes;
  private final String engine;

  /** What it reached, and the processor time that it took. */
  record Rate(double gbps, double processorSPerGb) {}

  /** One that works here, on a file that it makes. */
  Fio(Path file, long fileBytes) throws IOException, InterruptedException {
    if (!isOnPath()) {
      throw new MissingProgram(
          "fio", "Debian and Ubuntu: apt-get install fio; Fedora: dnf install fio");
    }
    this.file = file;
    this.fileBytes = fileBytes;
    engine = firstThatWorks();
  }

  private static boolean isOnPath() {
    for (String folder : System.getenv().getOrDefault("PATH", "").split(File.pathSeparator, -1)) {
      if (Files.isExecutable(Path.of(folder, "fio"))) {
        return true;
      }
    }
    return false;
  }

  private String firstThatWorks() throws IOException, InterruptedException {
    IOException refused = null;
    for (String name : ENGINES) {
      try {
        // The first pass also makes the file: a disk is slower where nothing was written yet.
        var _ = run(name, "write", 1 << 20, 8, "--size=" + fileBytes);
        return name;
      } catch (IOException e) {
        if (refused == null) {
          refused = e;
        } else {
          refused.addSuppressed(e);
        }
      }
    }
    throw refused == null ? new IOException("fio has no engine") : refused;
  }

  String engine() {
    return engine;
  }

  /** Writes blocks one behind the other for a while. */
  Rate write(int blockBytes, int depth, long durationNs) throws IOException, InterruptedException {
    return timed("write", blockBytes, depth, durationNs);
  }

  /** Reads random blocks for a while. */
  Rate read(int blockBytes, int depth, long durationNs) throws IOException, InterruptedException {
    return timed("randread", blockBytes, depth, durationNs);
  }

  private Rate timed(String way, int blockBytes, int depth, long durationNs)
      throws IOException, InterruptedException {
    long ms = Math.max(1, durationNs / 1_000_000);
    return run(
        engine,
        way,
        blockBytes,
        depth,
        "--size=" + fileBytes,
        "--time_based",
        "--runtime=" + ms + "ms",
        "--norandommap");
  }

  private Rate run(String name, String way, int blockBytes, int depth, String... more)
      throws IOException, InterruptedException {
    List<String> command =
        new java.util.ArrayList<>(
            List.of(
                "fio",
                "--name=limit",
                "--filename=" + file,
                "--ioengine=" + name,
                "--direct=1",
                "--rw=" + way,
                "--bs=" + blockBytes,
                "--iodepth=" + depth,
                "--scramble_buffers=0",
                "--fallocate=native",
                "--output-format=json"));
    command.addAll(List.of(more));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException("fio with " + name + " failed: " + output.strip());
    }
    return parse(output, way.contains("read") ? "read" : "write");
  }

  /** Reads fio's report of one job. */
  static Rate parse(String json, String way) throws IOException {
    int section = json.indexOf("\"" + way + "\" : {");
    if (section < 0) {
      throw new IOException("fio's report has no section '" + way + "': " + json);
    }
    double bytes = number(json, section, "io_bytes");
    double runtimeMs = number(json, section, "runtime");
    double jobMs = number(json, 0, "job_runtime");
    double percent = number(json, 0, "usr_cpu") + number(json, 0, "sys_cpu");
    return new Rate(bytes / 1e6 / runtimeMs, percent / 100 * jobMs / MS_PER_S / (bytes / 1e9));
  }

  private static double number(String json, int from, String name) throws IOException {
    Matcher matcher =
        Pattern.compile(String.format(Locale.ROOT, "\"%s\" : ([0-9.]+)", name)).matcher(json);
    if (!matcher.find(from)) {
      throw new IOException("fio's report has no '" + name + "': " + json);
    }
    return Double.parseDouble(matcher.group(1));
  }
}

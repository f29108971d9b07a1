package io.kvtier.daemon.doctor;

import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.IpcHandle;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A {@link GpuLender} in a process of its own, with the Java runtime and classes of this one. */
final class LenderProcess implements Lender {
  private static final int ANSWER_WITHIN_S = 60;

  private final String program;
  private @Nullable Process process;
  private @Nullable BufferedReader answers;

  LenderProcess() {
    this(GpuLender.class.getName());
  }

  /** With another program, for tests. */
  LenderProcess(String program) {
    this.program = program;
  }

  @Override
  public Answer lend(GpuDevice device) {
    try {
      return ask(device.uuid());
    } catch (IOException e) {
      return new Answer.Refused("a process for it can't be run: " + e.getMessage());
    }
  }

  private Answer ask(String uuid) throws IOException {
    Process running = process;
    BufferedReader reader = answers;
    if (running == null || reader == null) {
      running = start();
      reader = running.inputReader(StandardCharsets.UTF_8);
      process = running;
      answers = reader;
    }
    OutputStream out = running.getOutputStream();
    out.write((uuid + "\n").getBytes(StandardCharsets.UTF_8));
    out.flush();
    Process late = running;
    CompletableFuture<Void> deadline =
        CompletableFuture.runAsync(
            late::destroyForcibly,
            CompletableFuture.delayedExecutor(ANSWER_WITHIN_S, TimeUnit.SECONDS));
    try {
      // Others may write there, too: the JVM its warnings.
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        if (line.startsWith(GpuLender.LENT)) {
          return new Answer.Lent(IpcHandle.parse(line.substring(GpuLender.LENT.length())));
        }
        if (line.startsWith(GpuLender.REFUSED)) {
          return new Answer.Refused(line.substring(GpuLender.REFUSED.length()));
        }
      }
    } finally {
      boolean ignored = deadline.cancel(false);
    }
    return new Answer.Refused(
        "the process for it ended, or did not answer in " + ANSWER_WITHIN_S + " s");
  }

  private Process start() throws IOException {
    List<String> command =
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            System.getProperty("java.class.path"),
            program);
    return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
  }

  @Override
  public void close() {
    Process running = process;
    if (running != null) {
      running.destroyForcibly();
    }
  }
}

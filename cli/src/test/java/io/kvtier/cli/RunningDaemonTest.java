package io.kvtier.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A JVM that passes for a daemon: what can be learnt of it from outside. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
final class RunningDaemonTest {
  private static final Path JAVA = Path.of(System.getProperty("java.home"), "bin", "java");

  @TempDir private Path folder;
  private Process process;

  @BeforeEach
  void start() throws IOException, InterruptedException {
    Path out = folder.resolve("out");
    process = start(ProcessBuilder.Redirect.appendTo(out.toFile()));
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!Files.readString(out).contains("up")) {
      assertTrue(process.isAlive() && System.nanoTime() < end, Files.readString(out));
      Thread.sleep(20);
    }
  }

  private Process start(ProcessBuilder.Redirect output) throws IOException {
    Path source = folder.resolve("Sleeper.java");
    Files.writeString(
        source,
        """
        class Sleeper {
          public static void main(String[] words) throws Exception {
            System.out.println("up");
            System.in.read();
          }
        }
        """);
    ProcessBuilder builder =
        new ProcessBuilder(
                JAVA.toString(), source.toString(), "kvtierd", "--config", "/k.yaml", "--set=a.b=c")
            .redirectErrorStream(true)
            .redirectOutput(output);
    builder.environment().putAll(Map.of("KVTIERD_HOST_BYTES", "7GiB", "AWS_PROFILE", "cache"));
    return builder.start();
  }

  @AfterEach
  void stop() {
    process.destroyForcibly();
  }

  @Test
  void environment_hasTheDaemonsSettingsAndCredentialsOverOurs() {
    Map<String, String> seen = requireNonNull(new RunningDaemon(process.pid()).environment());
    assertEquals("7GiB", seen.get("KVTIERD_HOST_BYTES"));
    assertEquals("cache", seen.get("AWS_PROFILE"));
    assertEquals(System.getenv("PATH"), seen.get("PATH"));
  }

  @Test
  void configuration_isThatOfItsWords() {
    assertEquals(
        List.of("/k.yaml", "--set", "a.b=c"), new RunningDaemon(process.pid()).configuration());
    assertEquals(
        List.of("/f", "--set", "x=y=z", "--set", "socket.path=/s"),
        RunningDaemon.configuration(
            List.of("kvtierd", "--set", "x=y=z", "--socket", "/s", "--config=/f")));
    assertEquals(
        List.of("--set", "x=y"),
        RunningDaemon.configuration(List.of("kvtierd", "--set", "x=y", "--set")),
        "an option without its value is none");
    assertNull(new RunningDaemon(ProcessHandle.current().pid() + (1L << 22)).configuration());
  }

  @Test
  void threadsByQuit_behindAnOlderDump_areThoseOfNow() throws IOException {
    Path out = folder.resolve("out");
    Files.writeString(
        out, "Full thread dump of yesterday\nJNI global refs: 1\n", StandardOpenOption.APPEND);
    String threads = new RunningDaemon(process.pid()).threadsByQuit();
    assertTrue(threads.contains("\"main\""), threads);
    assertFalse(threads.contains("yesterday"), threads);
  }

  @Test
  void threadsByQuit_areReadWhereTheJvmHasWrittenThem() {
    String threads = new RunningDaemon(process.pid()).threadsByQuit();
    assertTrue(threads.contains("Full thread dump"), threads);
    assertTrue(threads.contains("\"main\""), threads);
    assertTrue(process.isAlive(), "the JVM goes on");
  }

  /** As in a container, or where the output is the journal's. */
  @Test
  void threadsByQuit_outputToAPipe_areWrittenThere() throws IOException {
    Process piped = start(ProcessBuilder.Redirect.PIPE);
    try (BufferedReader output = piped.inputReader()) {
      assertEquals("up", output.readLine());
      String answer = new RunningDaemon(piped.pid()).threadsByQuit();
      assertTrue(answer.startsWith("asked for by SIGQUIT"), answer);
      String line = output.readLine();
      while (line != null && !line.startsWith("\"main\"")) {
        line = output.readLine();
      }
      assertTrue(line != null && piped.isAlive(), "the JVM ended");
    } finally {
      piped.destroyForcibly();
    }
  }

  @Test
  void threadsByQuit_outputDeleted_areReadAllTheSame() throws IOException {
    Files.delete(folder.resolve("out"));
    String threads = new RunningDaemon(process.pid()).threadsByQuit();
    assertTrue(threads.contains("\"main\""), threads);
  }
}

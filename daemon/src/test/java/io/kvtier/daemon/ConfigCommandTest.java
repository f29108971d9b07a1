package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.tiers.gpu.GpuProbe;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** The daemon's command line where it starts nothing. */
final class ConfigCommandTest {
  @TempDir private Path folder;

  private record Ran(int exitCode, String out, String err) {}

  private static Ran run(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    CommandLine command = Kvtierd.commandLine(() -> new GpuProbe.NoGpu("this is a test"));
    command.setOut(new PrintWriter(out));
    command.setErr(new PrintWriter(err));
    int exitCode = command.execute(arguments);
    return new Ran(exitCode, out.toString(), err.toString());
  }

  @Test
  void check_wrongFile_tellsEachMistakeAndEndsWith2() throws IOException {
    Path file =
        Files.writeString(
            folder.resolve("k.yaml"), "host:\n  byts: 1GiB\nlimits:\n  lease: 30\nhots:\n  a: 1\n");
    Ran ran = run("config", "check", file.toString());
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains("3 mistakes in the configuration"), ran.err());
    assertTrue(ran.err().contains(file + ", line 2: unknown key 'host.byts'"), ran.err());
    assertTrue(ran.err().contains(file + ", line 4: limits.lease is '30'"), ran.err());
    assertTrue(ran.err().contains("did you mean 'host'?"), ran.err());
  }

  @Test
  void doctor_settingsOverTheFile_areNamedWithTheirSource() throws Exception {
    Path file = Files.writeString(folder.resolve("k.yaml"), "ssd:\n  bytes: 0\n");
    LoadedConfig loaded =
        new ConfigSource(
                file,
                Map.of("KVTIERD_LOG_LEVEL", "warn", "HOME", "/root"),
                List.of("host.bytes=64MiB"))
            .load();
    assertEquals(
        "k.yaml has no mistake; it is overridden by host.bytes=64MiB (--set), log.level=warn"
            + " (environment KVTIERD_LOG_LEVEL)",
        DoctorCommand.right("k.yaml", loaded.entries()));
    LoadedConfig plain = new ConfigSource(file, Map.of(), List.of()).load();
    assertEquals("k.yaml has no mistake", DoctorCommand.right("k.yaml", plain.entries()));
  }

  @Test
  void check_largerThanTheMachine_isRefusedButNotElsewhere() throws IOException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host:\n  bytes: 512TiB\n");
    Ran here = run("config", "check", file.toString());
    assertEquals(2, here.exitCode());
    assertTrue(here.err().contains(file + ", line 2: host.bytes is '512TiB'"), here.err());
    Ran elsewhere = run("config", "check", "--elsewhere", file.toString());
    assertEquals(0, elsewhere.exitCode(), elsewhere.err());
    assertTrue(
        elsewhere.out().contains("has no mistake; 1 key differs from its default"),
        elsewhere.out());
  }

  @Test
  void check_whatCouldNotStart_isRefusedWithItsPlace() throws IOException {
    Path file =
        Files.writeString(
            folder.resolve("k.yaml"),
            "socket: {users: [nosuch-user], groups: [nosuch-group]}\ngrpc:\n  host: 0.0.0.0\n");
    Ran here = run("config", "check", file.toString());
    assertEquals(2, here.exitCode());
    assertTrue(
        here.err().contains(file + ", line 1: socket.users names user 'nosuch-user'"), here.err());
    assertTrue(here.err().contains(file + ", line 3: grpc.host is '0.0.0.0'"), here.err());
    // Users are of a machine, what a listener needs is not.
    Ran elsewhere = run("config", "check", "--elsewhere", file.toString());
    assertEquals(2, elsewhere.exitCode());
    assertTrue(elsewhere.err().contains("grpc.host is '0.0.0.0'"), elsewhere.err());
    assertFalse(elsewhere.err().contains("nosuch"), elsewhere.err());
    Ran without =
        run("config", "check", file.toString(), "--elsewhere", "--set", "grpc.enabled=false");
    assertEquals(0, without.exitCode(), without.err());
  }

  @Test
  void check_roleThatThereIsNot_isRefusedEverywhere() throws IOException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "socket: {users: ['root:reed']}\n");
    Ran ran = run("config", "check", "--elsewhere", file.toString());
    assertEquals(2, ran.exitCode());
    assertTrue(
        ran.err().contains(file + ", line 1: socket.users is '[root:reed]', expected names"),
        ran.err());
  }

  @Test
  void showAndDiff_tellWhereValuesComeFrom() throws IOException {
    Path file = Files.writeString(folder.resolve("k.yaml"), "host:\n  bytes: 64MiB\n");
    Ran show = run("config", "show", file.toString(), "--set", "ssd.bytes=0");
    assertEquals(0, show.exitCode(), show.err());
    assertTrue(
        show.out().lines().anyMatch(line -> line.matches("host\\.bytes +64MiB +.*k.yaml, line 2")),
        show.out());
    assertTrue(
        show.out().lines().anyMatch(line -> line.matches("host\\.policy +lineage/lru +default")),
        show.out());
    Ran diff = run("config", "diff", file.toString(), "--set", "ssd.bytes=0");
    assertEquals(2, diff.out().lines().count(), diff.out());
    assertTrue(diff.out().contains("the default is 4GiB"), diff.out());
  }

  @Test
  void wrongUsage_tellsTheReasonNotTheWholeUsage() {
    Ran ran = run("config", "chek");
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains("chek"), ran.err());
    assertTrue(ran.err().lines().count() <= 4, ran.err());
    assertEquals(2, run("config").exitCode());
  }
}

package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.kvtier.tiers.gpu.GpuProbe;
import java.util.Arrays;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** The short way reads what picocli reads, or leaves it to picocli. */
final class PlainStartTest {
  private static PlainStart byPicocli(String[] arguments) {
    CommandLine commandLine = Kvtierd.commandLine(() -> new GpuProbe.NoGpu("of a test"));
    commandLine.parseArgs(arguments);
    return commandLine.<Kvtierd>getCommand().asked();
  }

  @Test
  void commands_areThoseThatThereAre() {
    CommandLine commandLine = Kvtierd.commandLine(() -> new GpuProbe.NoGpu("of a test"));
    assertEquals(PlainStart.COMMANDS, commandLine.getSubcommands().keySet());
  }

  @Provide
  Arbitrary<List<String>> arguments() {
    return Arbitraries.of(
            "--set",
            "--set=a=b",
            "--config",
            "--config=/etc/x.yaml",
            "--socket",
            "--socket=/run/s",
            "a=b",
            "host.bytes=1GiB",
            "/etc/y.yaml",
            "x y",
            "",
            "-",
            "--",
            "-h",
            "--help",
            "@file",
            "\"quoted\"",
            "config",
            "doctor",
            "--print-config",
            "a=",
            "=",
            "--set=",
            "--sock=a",
            "ü")
        .list()
        .ofMaxSize(6);
  }

  @Property(tries = 3000)
  void of_whateverItTakes_isWhatPicocliReads(@ForAll("arguments") List<String> arguments) {
    String[] array = arguments.toArray(new String[0]);
    PlainStart plain = PlainStart.of(array);
    if (plain != null) {
      assertEquals(byPicocli(array), plain, () -> Arrays.toString(array));
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "--config /etc/kvtier/kvtier.yaml",
        "--config=/c.yaml --set host.bytes=1GiB --set=ssd.bytes=0 --socket /run/s",
        "--socket /run/s --set a=b"
      })
  void of_asServicesAsk_needsNoPicocli(String words) {
    String[] arguments = words.isEmpty() ? new String[0] : words.split(" ", -1);
    assertEquals(byPicocli(arguments), PlainStart.of(arguments));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "--help",
        "doctor",
        "config check",
        "--set",
        "--set --config x",
        "--config a --config b",
        "--socket a --socket b",
        "--sett a=b",
        "@arguments",
        "--print-config"
      })
  void of_anythingElse_isLeftToPicocli(String words) {
    assertNull(PlainStart.of(words.split(" ", -1)));
  }
}

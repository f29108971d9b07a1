package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Runs {@link Interleavings} under jcstress, briefly; jcstress measures in processes of its own.
 */
final class InterleavingsTest {
  @TempDir private Path folder;

  @Test
  @Timeout(value = 120, unit = TimeUnit.SECONDS)
  void handOvers_haveNoForbiddenOutcome() throws IOException, InterruptedException {
    Process jcstress =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                "org.openjdk.jcstress.Main",
                "-t",
                "Interleavings",
                "-m",
                "quick",
                "-f",
                "1",
                "-fsm",
                "0",
                "-iters",
                "3",
                "-time",
                "200",
                "-sc",
                "false",
                // The optimising compiler alone: it shows all that the others do.
                "-jvmArgs",
                "-XX:-TieredCompilation",
                "-af",
                "NONE",
                "-r",
                folder.toString())
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .start();
    String report;
    try {
      report = new String(jcstress.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    } finally {
      jcstress.destroy();
    }
    assertEquals(0, jcstress.waitFor(), report);
    assertTrue(report.contains("Failed tests: No matches"), report);
    assertTrue(report.contains("Error tests: No matches"), report);
    assertTrue(report.contains("All remaining tests: 5 matching"), report);
  }
}

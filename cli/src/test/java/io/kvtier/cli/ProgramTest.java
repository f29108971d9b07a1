package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class ProgramTest {
  private static final Duration LONG = Duration.ofSeconds(50);

  @Test
  void run_endsByItself_hasWhatItPrinted() throws IOException {
    Program.Ran ran =
        Program.run(
            LONG, Map.of("WORD", "there"), List.of("sh", "-c", "echo $WORD; echo 2 >&2; exit 7"));
    assertTrue(ran.isInTime());
    assertFalse(ran.isWell());
    assertEquals(7, ran.exitCode());
    assertEquals("there\n", ran.out());
    assertEquals("2\n", ran.err());
  }

  @Test
  void run_doesNotEnd_isEndedAndWhatItSaidIsThere() throws IOException {
    Program.Ran ran = Program.run(Duration.ofMillis(1), "sh", "-c", "exec sleep 1000");
    assertFalse(ran.isInTime());
    assertEquals("", ran.out());
  }

  @Test
  void run_leavesSomethingBehindThatHoldsItsOutput_isNotWaitedFor() throws IOException {
    Program.Ran ran = Program.run(LONG, "sh", "-c", "sleep 100 & echo $!");
    assertTrue(ran.isWell());
    ProcessHandle.of(Long.parseLong(ran.out().strip())).ifPresent(ProcessHandle::destroy);
  }

  @Test
  void run_noSuchProgram_throws() {
    assertThrows(IOException.class, () -> Program.run(LONG, "/nosuch/program"));
  }
}

package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Processes are told apart, and seen to end. */
final class ProcessIdTest {
  @Test
  void isGone_whenTheProcessHasEnded_andNotBefore() throws IOException, InterruptedException {
    Process process = new ProcessBuilder("sleep", "600").start();
    ProcessId id = ProcessId.of(process.pid());
    try {
      assertTrue(id.isKnown());
      assertEquals(id, ProcessId.of(process.pid()));
      assertFalse(id.isGone());
      assertTrue(new ProcessId(id.number(), id.startTicks() - 1).isGone(), "an earlier one");
    } finally {
      process.destroyForcibly();
    }
    assertTrue(process.waitFor(30, TimeUnit.SECONDS));
    assertTrue(id.isGone());
    assertEquals(ProcessId.UNKNOWN, ProcessId.of(process.pid()));
  }

  @Test
  void isGone_ofAProcessThatNobodyHasCollected() throws IOException, InterruptedException {
    // The shell's child ends, and the shell, which has become another program, does not look.
    Process parent = new ProcessBuilder("sh", "-c", "sleep 0 & echo $!; exec sleep 600").start();
    try (var said = parent.inputReader()) {
      ProcessId child = ProcessId.of(Long.parseLong(said.readLine()));
      long end = System.nanoTime() + 30_000_000_000L;
      while (!child.isGone() && System.nanoTime() < end) {
        Thread.sleep(5);
      }
      assertTrue(child.isGone() || !child.isKnown());
    } finally {
      parent.destroyForcibly().waitFor();
    }
  }

  @Test
  void isGone_ofNoProcess_isNeverTrue() {
    assertFalse(ProcessId.UNKNOWN.isGone());
    assertEquals(ProcessId.UNKNOWN, ProcessId.of(0));
    assertEquals(ProcessId.UNKNOWN, ProcessId.of(-1));
  }
}

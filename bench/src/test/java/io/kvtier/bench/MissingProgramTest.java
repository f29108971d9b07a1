package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/** A benchmark whose program is not installed says so in one line. */
final class MissingProgramTest {
  @Test
  void in_startOfAProgramThatIsNotThere_namesIt() {
    IOException e =
        assertThrows(IOException.class, () -> new ProcessBuilder("nosuch-program").start());

    MissingProgram missing = MissingProgram.in(new UncheckedIOException(e));

    assertTrue(String.valueOf(missing).contains("'nosuch-program' is missing"), () -> "" + missing);
  }

  @Test
  void in_otherFailures_isNone() {
    assertNull(MissingProgram.in(new IOException("no space left on device")));
    assertNull(MissingProgram.in(new IllegalStateException("a defect")));
  }

  @Test
  void execute_missingProgram_printsOneLineAndNoTrace() throws Exception {
    StringWriter err = new StringWriter();
    CommandLine command = Bench.commandLine();
    command.setErr(new PrintWriter(err, true));
    MissingProgram failure = new MissingProgram("fio", "apt-get install fio");

    int exitCode =
        command.getExecutionExceptionHandler().handleExecutionException(failure, command, null);

    assertEquals(1, exitCode);
    assertEquals(
        "bench: the program 'fio' is missing: install it (apt-get install fio), or add its folder to"
            + " PATH\n",
        err.toString());
  }

  @Test
  void execute_mistypedPart_isSuggested() {
    StringWriter err = new StringWriter();
    CommandLine command = Bench.commandLine();
    command.setErr(new PrintWriter(err, true));

    assertEquals(2, command.execute("ssd", "--quik"));
    assertTrue(err.toString().contains("--quick"), err.toString());
  }
}

package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The terminal is given back as it was, however the command ends. */
final class AlternateScreenTest {
  private static final String LEAVE = "\u001b[?25h\u001b[?1049l";

  private final StringWriter terminal = new StringWriter();
  private final PrintWriter out = new PrintWriter(terminal);

  @Test
  void draw_twoFrames_areOnTheSecondScreenAndKeepTheScrollback() {
    try (AlternateScreen screen = new AlternateScreen(out)) {
      screen.draw(List.of("one"));
      screen.draw(List.of("two"));
    }
    String shown = terminal.toString();
    assertTrue(shown.startsWith("\u001b[?1049h"), shown);
    assertTrue(shown.indexOf("one") < shown.indexOf("two"), shown);
    assertTrue(shown.endsWith(LEAVE), shown);
    assertFalse(shown.contains("\u001b[3J"), "the scrollback is the user's");
  }

  @Test
  void close_afterAnError_leavesTheSecondScreen() {
    assertThrows(
        Failure.class,
        () -> {
          try (AlternateScreen screen = new AlternateScreen(out)) {
            screen.draw(List.of("a frame"));
            throw new Failure(Failure.NO_DAEMON, "the daemon ended");
          }
        });
    assertTrue(terminal.toString().endsWith(LEAVE));
  }

  @Test
  void draw_afterTheScreenWasLeft_writesNothing() {
    AlternateScreen screen = new AlternateScreen(out);
    screen.close();
    String before = terminal.toString();
    screen.draw(List.of("late"));
    screen.close();
    assertEquals(before, terminal.toString());
  }
}

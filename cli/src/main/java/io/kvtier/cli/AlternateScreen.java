package io.kvtier.cli;

import java.io.PrintWriter;
import java.util.List;

/**
 * A terminal's second screen, on which frames are drawn one over the other. What the terminal
 * showed before, and its scrollback, come back when this is closed, also by Ctrl-C.
 */
final class AlternateScreen implements AutoCloseable {
  private static final String ENTER = "\u001b[?1049h\u001b[?25l";
  private static final String LEAVE = "\u001b[?25h\u001b[?1049l";
  private static final String HOME = "\u001b[H";
  private static final String END_OF_LINE = "\u001b[K";
  private static final String END_OF_SCREEN = "\u001b[J";

  private final PrintWriter out;
  private final Thread atExit = new Thread(this::leave, "kvtier-screen");
  private boolean isLeft;

  AlternateScreen(PrintWriter out) {
    this.out = out;
    Runtime.getRuntime().addShutdownHook(atExit);
    out.print(ENTER);
    out.flush();
  }

  /** Draws a frame in the place of the one before. */
  synchronized void draw(List<String> lines) {
    if (isLeft) {
      return;
    }
    out.print(HOME);
    for (String line : lines) {
      out.print(line);
      out.println(END_OF_LINE);
    }
    out.print(END_OF_SCREEN);
    out.flush();
  }

  private synchronized void leave() {
    if (!isLeft) {
      isLeft = true;
      out.print(LEAVE);
      out.flush();
    }
  }

  @Override
  public void close() {
    leave();
    try {
      Runtime.getRuntime().removeShutdownHook(atExit);
    } catch (IllegalStateException e) {
      // The process ends already: the hook finds nothing left to do.
    }
  }
}

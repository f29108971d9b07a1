package io.kvtier.protocol.linux;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A process, told apart from a later one that gets its number.
 *
 * @param number the process id; 0 where it is not known
 * @param startTicks when it was started, in ticks since the machine's start; 0 where that is not
 *     known
 */
public record ProcessId(long number, long startTicks) {
  /** A process of which nothing is known: it may run for ever. */
  public static final ProcessId UNKNOWN = new ProcessId(0, 0);

  // The fields of /proc/PID/stat behind the name, counted from 0.
  private static final int STATE_FIELD = 0;
  private static final int THREADS_FIELD = 17;
  private static final int START_FIELD = 19;

  /**
   * The process that has a number now; {@link #UNKNOWN} where there is none, or this user may not
   * see it.
   */
  public static ProcessId of(long number) {
    String[] stat = stat(number);
    return stat == null ? UNKNOWN : new ProcessId(number, Long.parseLong(stat[START_FIELD]));
  }

  /** Whether it could be told when the process ends. */
  public boolean isKnown() {
    return startTicks != 0;
  }

  /**
   * Whether the process has ended, and its memory with it. One that nobody has collected yet counts
   * as ended when none of its threads runs.
   */
  public boolean isGone() {
    if (!isKnown()) {
      return false;
    }
    String[] stat = stat(number);
    if (stat == null || Long.parseLong(stat[START_FIELD]) != startTicks) {
      return true;
    }
    boolean isDead = stat[STATE_FIELD].equals("Z") || stat[STATE_FIELD].equals("X");
    return isDead && Long.parseLong(stat[THREADS_FIELD]) <= 1;
  }

  private static String @org.jspecify.annotations.Nullable [] stat(long number) {
    if (number <= 0) {
      return null;
    }
    try {
      String text = Files.readString(Path.of("/proc/" + number + "/stat"));
      // The name stands in brackets, and may have any of these in it.
      String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ", -1);
      return fields.length > START_FIELD ? fields : null;
    } catch (IOException e) {
      return null;
    }
  }
}

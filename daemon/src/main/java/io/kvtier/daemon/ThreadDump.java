package io.kvtier.daemon;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.protocol.Status;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/** What each of the daemon's threads does just now, for who looks for a fault. */
final class ThreadDump {
  private static final int FRAMES_MAX = 24;

  private ThreadDump() {}

  /** The command {@code threads}. */
  static OperatorAnswer run(List<String> words) {
    if (words.size() != 1) {
      throw new IllegalArgumentException("'threads' takes no further words");
    }
    StringBuilder out = new StringBuilder();
    Thread.getAllStackTraces().entrySet().stream()
        .sorted(Comparator.comparing(entry -> entry.getKey().getName()))
        .forEach(entry -> add(out, entry));
    return new OperatorAnswer(Status.OK, out.toString());
  }

  private static void add(StringBuilder out, Map.Entry<Thread, StackTraceElement[]> entry) {
    out.append('"').append(entry.getKey().getName()).append("\" ");
    out.append(entry.getKey().getState()).append('\n');
    StackTraceElement[] frames = entry.getValue();
    for (int i = 0; i < Math.min(FRAMES_MAX, frames.length); i++) {
      out.append("  at ").append(frames[i]).append('\n');
    }
    out.append('\n');
  }
}

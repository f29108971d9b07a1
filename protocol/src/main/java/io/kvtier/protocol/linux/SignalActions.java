package io.kvtier.protocol.linux;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the kernel does with a signal, as far as the JDK has no say in it. */
public final class SignalActions {
  /** Sent to a service that is to read its configuration again. */
  public static final int SIGHUP = 1;

  private static final long DEFAULT = 0;
  private static final long ERROR = -1;

  private SignalActions() {}

  /** Whether this process ignores a signal, as whoever started it may have asked: nohup does. */
  public static boolean isIgnored(int signal) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("SigIgn:")) {
        long ignored = Long.parseUnsignedLong(line.substring("SigIgn:".length()).strip(), 16);
        return (ignored >>> (signal - 1) & 1) == 1;
      }
    }
    return false;
  }

  /** Has a signal do what it does when nobody has said anything. */
  public static void reset(int signal) throws IOException {
    try {
      long before = (long) Libc.SIGNAL.invokeExact(Libc.capture(), signal, DEFAULT);
      if (before == ERROR) {
        throw Libc.failure("signal", " of " + signal);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}

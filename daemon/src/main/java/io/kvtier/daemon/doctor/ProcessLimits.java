package io.kvtier.daemon.doctor;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The soft limits of a process, as the kernel tells them. */
final class ProcessLimits {
  static final long UNLIMITED = Long.MAX_VALUE;

  private final List<String> lines;

  /** Of a process; 0 for this one. Another user's can't be read: then this one's are. */
  ProcessLimits(long pid) {
    this(read(pid));
  }

  /** As a kernel has told them. */
  ProcessLimits(List<String> lines) {
    this.lines = lines;
  }

  private static List<String> read(long pid) {
    try {
      return Files.readAllLines(Path.of("/proc", pid == 0 ? "self" : Long.toString(pid), "limits"));
    } catch (IOException e) {
      return pid == 0 ? List.of() : read(0);
    }
  }

  /** A limit by the name that the kernel gives it; unlimited where it is not told. */
  long soft(String name) {
    for (String line : lines) {
      if (line.startsWith(name)) {
        String value = line.substring(name.length()).strip().split("\\s+", -1)[0];
        return value.equals("unlimited") ? UNLIMITED : Long.parseLong(value);
      }
    }
    return UNLIMITED;
  }
}

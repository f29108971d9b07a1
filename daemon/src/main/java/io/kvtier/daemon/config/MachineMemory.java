package io.kvtier.daemon.config;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** How much memory there is, by the kernel's word. */
public final class MachineMemory {
  /** Version 1 has a number for no limit, too: the largest whole number of pages. */
  private static final long UNLIMITED_BYTES = 1L << 60;

  private MachineMemory() {}

  /** All of the machine; 0 where nobody says. */
  public static long totalBytes() {
    return field("MemTotal:");
  }

  /** What could be taken now without swapping; 0 where nobody says. */
  public static long availableBytes() {
    return field("MemAvailable:");
  }

  /** What of the shared memory that a process has mapped is in memory; 0 where nobody says. */
  public static long sharedBytes(long pid) {
    return field(Path.of("/proc/" + pid + "/status"), "RssShmem:");
  }

  private static long field(String name) {
    return field(Path.of("/proc/meminfo"), name);
  }

  private static long field(Path file, String name) {
    try {
      for (String line : Files.readAllLines(file)) {
        if (line.startsWith(name)) {
          return Long.parseLong(line.replaceAll("[^0-9]", "")) << 10;
        }
      }
    } catch (IOException | NumberFormatException e) {
      return 0;
    }
    return 0;
  }

  /** What this process's control groups allow, the least of them; 0 for no limit. */
  public static long groupBytes() {
    return groupBytes(Path.of("/proc/self/cgroup"), Path.of("/sys/fs/cgroup"));
  }

  /**
   * The same by other files.
   *
   * @param groups a process's groups, a line each
   * @param root where control groups are mounted: all in one tree (version 2), or each controller's
   *     in a folder of its own (version 1)
   */
  static long groupBytes(Path groups, Path root) {
    long least = Long.MAX_VALUE;
    try {
      for (String line : Files.readAllLines(groups)) {
        // Number, controllers, path.
        String[] parts = line.split(":", 3);
        if (parts.length < 3) {
          continue;
        }
        if (parts[0].equals("0") && parts[1].isEmpty()) {
          least = Math.min(least, least(root, parts[2], "memory.max"));
        } else if (List.of(parts[1].split(",", -1)).contains("memory")) {
          least = Math.min(least, least(root.resolve("memory"), parts[2], "memory.limit_in_bytes"));
        }
      }
    } catch (IOException e) {
      return 0;
    }
    return least >= UNLIMITED_BYTES ? 0 : least;
  }

  private static long least(Path root, String path, String file) {
    long least = Long.MAX_VALUE;
    Path group = root.resolve(path.substring(1)).normalize();
    while (group != null && group.startsWith(root)) {
      least = Math.min(least, limit(group.resolve(file)));
      group = group.getParent();
    }
    return least;
  }

  private static long limit(Path file) {
    try {
      String text = Files.readString(file).strip();
      return text.equals("max") ? Long.MAX_VALUE : Long.parseLong(text);
    } catch (IOException | NumberFormatException e) {
      return Long.MAX_VALUE;
    }
  }
}

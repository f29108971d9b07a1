package io.kvtier.daemon.config;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** How much memory there is, by the kernel's word. */
public final class MachineMemory {
  private MachineMemory() {}

  /** All of the machine; 0 where nobody says. */
  public static long totalBytes() {
    return field("MemTotal:");
  }

  /** What could be taken now without swapping; 0 where nobody says. */
  public static long availableBytes() {
    return field("MemAvailable:");
  }

  private static long field(String name) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/meminfo"))) {
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
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/cgroup"))) {
        if (line.startsWith("0::")) {
          Path root = Path.of("/sys/fs/cgroup");
          long least = 0;
          Path group = root.resolve(line.substring("0::/".length())).normalize();
          while (group != null && group.startsWith(root)) {
            long limit = limit(group.resolve("memory.max"));
            least = limit > 0 && (least == 0 || limit < least) ? limit : least;
            group = group.getParent();
          }
          return least;
        }
      }
    } catch (IOException e) {
      return 0;
    }
    return 0;
  }

  private static long limit(Path file) {
    try {
      String text = Files.readString(file).strip();
      return text.equals("max") ? 0 : Long.parseLong(text);
    } catch (IOException | NumberFormatException e) {
      return 0;
    }
  }
}

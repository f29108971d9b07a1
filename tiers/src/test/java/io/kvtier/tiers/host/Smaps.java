package io.kvtier.tiers.host;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the kernel tells of a mapping. */
final class Smaps {
  private Smaps() {}

  /** A field of a mapping, as {@code Rss}, KiB; 0 where there is none. */
  static long kib(MemorySegment mapping, String field) throws IOException {
    String begin = Long.toHexString(mapping.address()) + "-";
    boolean isIts = false;
    for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
      if (line.matches("^[0-9a-f]+-[0-9a-f]+ .*")) {
        isIts = line.startsWith(begin);
      } else if (isIts && line.startsWith(field + ":")) {
        return Long.parseLong(line.replaceAll("[^0-9]", ""));
      }
    }
    return 0;
  }
}

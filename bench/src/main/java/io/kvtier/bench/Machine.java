package io.kvtier.bench;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;

/** What a run ran on. */
final class Machine {
  private Machine() {}

  /** Date, processor, memory, kernel, JDK and whether memory comes in huge pages, in one line. */
  static String describe() throws IOException {
    String memory = field(Path.of("/proc/meminfo"), "MemTotal:").replace(" kB", "");
    String kernel = Files.readString(Path.of("/proc/sys/kernel/osrelease")).strip();
    return String.format(
        Locale.ROOT,
        "%s UTC; %s, %d cores, %.0f GiB, Linux %s, JDK %s, transparent huge pages %s",
        LocalDateTime.now(ZoneOffset.UTC).format(DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm")),
        field(Path.of("/proc/cpuinfo"), "model name").replaceFirst("^\\s*:\\s*", ""),
        Runtime.getRuntime().availableProcessors(),
        Long.parseLong(memory.strip()) / (double) (1 << 20),
        kernel,
        Runtime.version().feature(),
        hugePages());
  }

  private static String field(Path file, String name) throws IOException {
    for (String line : Files.readAllLines(file)) {
      if (line.startsWith(name)) {
        return line.substring(name.length()).strip();
      }
    }
    return "0";
  }

  private static String hugePages() throws IOException {
    Path file = Path.of("/sys/kernel/mm/transparent_hugepage/enabled");
    if (!Files.exists(file)) {
      return "absent";
    }
    String modes = Files.readString(file);
    int from = modes.indexOf('[');
    int to = modes.indexOf(']');
    return from >= 0 && to > from ? modes.substring(from + 1, to) : "unknown";
  }

  /** A field of /proc/self/status that counts kB, in bytes. */
  static long ownMemoryBytes(String name) throws IOException {
    String value = field(Path.of("/proc/self/status"), name + ":");
    return Long.parseLong(value.replace(" kB", "").strip()) << 10;
  }

  /** The processor time that this process has used so far, in seconds, to the microsecond. */
  static double ownProcessorSeconds() {
    return ManagementFactory.getPlatformMXBean(com.sun.management.OperatingSystemMXBean.class)
            .getProcessCpuTime()
        / 1e9;
  }

  /** The processor time that a process has used so far, in seconds. */
  static double processorSeconds(long pid) throws IOException {
    String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
    // The second field, the program's name in parentheses, may hold spaces.
    List<String> fields = List.of(stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1));
    int userTicks = 11;
    return (Long.parseLong(fields.get(userTicks)) + Long.parseLong(fields.get(userTicks + 1)))
        / (double) TICKS_PER_S;
  }

  // USER_HZ, the same on every architecture that Java runs on.
  private static final int TICKS_PER_S = 100;
}

package io.kvtier.tiers.numa;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Reads the NUMA nodes and the GPUs from the kernel's files. A file that is missing or that has
 * other contents than expected counts as unknown: a machine with odd files is served as one without
 * NUMA nodes.
 *
 * <pre>
 *   SYS/devices/system/node/online                  0-1
 *   SYS/devices/system/node/node0/cpulist           0-3,8
 *   SYS/devices/system/node/node0/meminfo           Node 0 MemTotal:  1024 kB
 *   SYS/devices/system/node/node0/distance          10 21     to each node that is online
 *   SYS/bus/pci/devices/0000:1a:00.0/numa_node      0, or -1
 *   PROC/driver/nvidia/gpus/0000:1a:00.0/           in containers, only the container's GPUs
 *   PROC/PID/status                                 Cpus_allowed_list:  0-7
 *                                                   Mems_allowed_list:  0-1
 * </pre>
 */
public final class NumaFiles {
  private static final String NODE = "node";
  private static final Pattern RANGE = Pattern.compile("(\\d{1,6})(?:-(\\d{1,6}))?");

  private final Path sys;
  private final Path proc;
  private final String process;

  /** The files of this machine, for this process. */
  public NumaFiles() {
    this("self");
  }

  /**
   * The files of this machine.
   *
   * @param process the process whose rights count, or {@code self}
   */
  public NumaFiles(String process) {
    this(Path.of("/sys"), Path.of("/proc"), process);
  }

  /** The files of another tree. */
  public NumaFiles(Path sys, Path proc, String process) {
    this.sys = sys;
    this.proc = proc;
    this.process = process;
  }

  /**
   * Reads all.
   *
   * @param wanted the nodes that memory may come from, as an operator has set them; empty: all
   */
  public NumaTopology read(BitSet wanted) {
    BitSet cpus = allowed("Cpus_allowed_list:");
    BitSet memory = allowed("Mems_allowed_list:");
    if (!wanted.isEmpty()) {
      memory.and(wanted);
    }
    TreeMap<Integer, NumaNode> nodes = new TreeMap<>();
    for (int number : numbers()) {
      Path folder = folderOf(number);
      BitSet own = list(text(folder.resolve("cpulist")));
      boolean hasCpus = !own.isEmpty();
      own.and(cpus);
      nodes.put(
          number,
          new NumaNode(
              number, own, hasCpus, Math.max(0, bytes(number, "MemTotal:")), memory.get(number)));
    }
    Map<Integer, Map<Integer, Integer>> distances = new HashMap<>();
    for (int number : nodes.keySet()) {
      distances.put(number, distances(number, List.copyOf(nodes.keySet())));
    }
    return new NumaTopology(List.copyOf(nodes.values()), gpus(), distances);
  }

  private Path folderOf(int number) {
    return sys.resolve("devices/system/node/node" + number);
  }

  /** The nodes that are online, by the kernel's list; empty where there is none. */
  BitSet online() {
    return list(text(sys.resolve("devices/system/node/online")));
  }

  /** The nodes that are online, in the order of their numbers. */
  private List<Integer> numbers() {
    BitSet online = online();
    return names(sys.resolve("devices/system/node")).stream()
        .filter(name -> name.matches(NODE + "\\d{1,4}"))
        .map(name -> Integer.parseInt(name.substring(NODE.length())))
        .filter(number -> online.isEmpty() || online.get(number))
        .sorted()
        .toList();
  }

  private Map<Integer, Integer> distances(int number, List<Integer> nodes) {
    String[] words = text(folderOf(number).resolve("distance")).strip().split("\\s+", -1);
    Map<Integer, Integer> distances = new HashMap<>();
    for (int i = 0; i < words.length && words.length == nodes.size(); i++) {
      if (words[i].matches("\\d{1,5}")) {
        distances.put(nodes.get(i), Integer.parseInt(words[i]));
      }
    }
    return distances;
  }

  private List<NumaGpu> gpus() {
    List<NumaGpu> gpus = new ArrayList<>();
    for (String name : names(proc.resolve("driver/nvidia/gpus"))) {
      String id = name.toLowerCase(Locale.ROOT);
      String node = text(sys.resolve("bus/pci/devices").resolve(id).resolve("numa_node")).strip();
      gpus.add(
          new NumaGpu(id, node.matches("\\d{1,4}") ? Integer.parseInt(node) : NumaGpu.UNKNOWN));
    }
    return gpus;
  }

  /**
   * The memory of a node that can be taken without a loss for anybody: free pages, and pages of
   * files that were not used lately.
   *
   * @return -1 where the kernel does not say
   */
  long freeBytes(int number) {
    long free = bytes(number, "MemFree:");
    return free < 0 ? free : free + Math.max(0, bytes(number, "Inactive(file):"));
  }

  /** A line of a node's memory, in bytes; -1 where there is no such line. */
  private long bytes(int number, String name) {
    Matcher matcher =
        Pattern.compile("Node \\d+ " + Pattern.quote(name) + "\\s+(\\d{1,15}) kB")
            .matcher(text(folderOf(number).resolve("meminfo")));
    return matcher.find() ? Long.parseLong(matcher.group(1)) << 10 : -1;
  }

  /** What the process may use; everything where the kernel does not say. */
  private BitSet allowed(String name) {
    BitSet all = new BitSet();
    for (String line : text(proc.resolve(process).resolve("status")).split("\n", -1)) {
      if (line.startsWith(name)) {
        all = list(line.substring(name.length()));
      }
    }
    if (all.isEmpty()) {
      all.set(0, 1 << 16);
    }
    return all;
  }

  /** The numbers of a list such as {@code 0-3,8}; empty where it is none. */
  static BitSet list(String text) {
    BitSet numbers = new BitSet();
    for (String word : text.strip().split(",", -1)) {
      Matcher range = RANGE.matcher(word.strip());
      if (!range.matches()) {
        return new BitSet();
      }
      int from = Integer.parseInt(range.group(1));
      int to = range.group(2) == null ? from : Integer.parseInt(range.group(2));
      if (to < from) {
        return new BitSet();
      }
      numbers.set(from, to + 1);
    }
    return numbers;
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException _) {
      return "";
    }
  }

  private static List<String> names(Path folder) {
    try (Stream<Path> entries = Files.list(folder)) {
      return entries.map(NumaFiles::nameOf).sorted().toList();
    } catch (IOException _) {
      return List.of();
    }
  }

  private static String nameOf(Path path) {
    @Nullable Path name = path.getFileName();
    return name == null ? "" : name.toString();
  }
}

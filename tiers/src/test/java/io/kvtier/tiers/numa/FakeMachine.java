package io.kvtier.tiers.numa;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Locale;

/** The files of a machine with NUMA nodes, in a folder. */
final class FakeMachine {
  private static final long GIB_IN_KB = 1 << 20;

  private final Path folder;

  FakeMachine(Path folder) {
    this.folder = folder;
  }

  /** A node; empty words leave a file out. */
  FakeMachine node(int number, String cpus, long gib, String distances) throws IOException {
    write("sys/devices/system/node/node" + number + "/cpulist", cpus + "\n");
    write(
        "sys/devices/system/node/node" + number + "/meminfo",
        meminfo(number, "MemTotal", gib * GIB_IN_KB)
            + meminfo(number, "MemFree", gib * GIB_IN_KB / 2)
            + meminfo(number, "Active(file)", gib * GIB_IN_KB / 8)
            + meminfo(number, "Inactive(file)", gib * GIB_IN_KB / 4));
    if (!distances.isEmpty()) {
      write("sys/devices/system/node/node" + number + "/distance", distances + "\n");
    }
    return this;
  }

  private static String meminfo(int node, String name, long kb) {
    return String.format("Node %d %-16s %10d kB%n", node, name + ":", kb);
  }

  FakeMachine online(String nodes) throws IOException {
    return write("sys/devices/system/node/online", nodes + "\n");
  }

  FakeMachine gpu(String pciId, String node) throws IOException {
    Files.createDirectories(folder.resolve("proc/driver/nvidia/gpus").resolve(pciId));
    return node.isEmpty()
        ? this
        : write(
            "sys/bus/pci/devices/" + pciId.toLowerCase(Locale.ROOT) + "/numa_node", node + "\n");
  }

  FakeMachine allowed(String cpus, String memory) throws IOException {
    return write(
        "proc/self/status",
        "Name:\tkvtierd\nCpus_allowed:\tff\nCpus_allowed_list:\t"
            + cpus
            + "\nMems_allowed:\t3\nMems_allowed_list:\t"
            + memory
            + "\n");
  }

  FakeMachine write(String name, String text) throws IOException {
    Path file = folder.resolve(name);
    Files.createDirectories(file.resolveSibling(""));
    Files.writeString(file, text);
    return this;
  }

  NumaFiles files() {
    return new NumaFiles(folder.resolve("sys"), folder.resolve("proc"), "self");
  }

  NumaTopology read() {
    return files().read(new BitSet());
  }

  /** Two sockets of 64 GiB with four processors each, and two GPUs on each. */
  static FakeMachine twoSockets(Path folder) throws IOException {
    return new FakeMachine(folder)
        .online("0-1")
        .node(0, "0-3", 64, "10 21")
        .node(1, "4-7", 64, "21 10")
        .gpu("0000:1a:00.0", "0")
        .gpu("0000:1b:00.0", "0")
        .gpu("0000:9a:00.0", "1")
        .gpu("0000:9b:00.0", "1")
        .allowed("0-7", "0-1");
  }
}

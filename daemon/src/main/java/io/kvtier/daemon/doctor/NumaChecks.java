package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.HostMemory;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaGpu;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Checks the NUMA nodes: where slabs are meant to be, and what keeps them from being there. */
final class NumaChecks {
  private static final String CHECK = "NUMA";

  private final HostMemory memory;
  private final NumaTopology topology;
  private final NumaCalls calls;

  /**
   * Checks for a configuration.
   *
   * @param topology the nodes, with the rights of the daemon
   */
  NumaChecks(HostMemory memory, NumaTopology topology, NumaCalls calls) {
    this.memory = memory;
    this.topology = topology;
    this.calls = calls;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    if (topology.nodes().size() < 2) {
      findings.add(Finding.pass(CHECK, "one NUMA node"));
      return findings;
    }
    if (!memory.usesNuma()) {
      findings.add(
          Finding.pass(
              CHECK, topology.nodes().size() + " NUMA nodes; not wanted: host.numa is off"));
      return findings;
    }
    NumaPlan plan = NumaPlan.of(topology, memory.slabs(), memory.slabBytes());
    findings.add(Finding.pass(CHECK, words(plan)));
    for (NumaGpu gpu : topology.gpus()) {
      addProblem(gpu, plan, findings);
    }
    if (plan.isActive()) {
      for (NumaPlan.Home home : plan.homes()) {
        if (home.slabs() > 0 && home.cpus().isEmpty()) {
          findings.add(
              Finding.warn(
                  CHECK,
                  "the daemon may use no processor of NUMA node "
                      + home.node()
                      + ", where slabs are",
                  "allow its processors (cpuset, AllowedCPUs=, docker --cpuset-cpus, taskset):"
                      + " threads run far from the memory that they read"));
        }
      }
      findings.addAll(refused(plan.homes().getFirst().node()));
    }
    return findings;
  }

  private String words(NumaPlan plan) {
    if (!plan.isActive()) {
      return topology.nodes().size() + " NUMA nodes, of which memory can come from one";
    }
    String homes =
        plan.homes().stream()
            .map(home ->
                "NUMA node "
                    + home.node()
                    + " is meant to have "
                    + ByteSize.words(home.slabs() * memory.slabBytes())
                    + " of host.bytes"
                    + (home.gpus().isEmpty()
                        ? ""
                        : ", near GPUs " + String.join(", ", home.gpus())))
            .collect(Collectors.joining("; "));
    String others =
        topology.nodes().stream()
            .filter(node -> plan.homes().stream().noneMatch(home -> home.node() == node.number()))
            .map(node -> node.number() + " (" + why(node) + ")")
            .collect(Collectors.joining(", "));
    return homes + (others.isEmpty() ? "" : "; NUMA nodes without slabs: " + others);
  }

  private static String why(NumaNode node) {
    if (node.memoryBytes() == 0) {
      return "no memory";
    }
    return node.hasCpus() ? "not allowed" : "no processors";
  }

  /** A GPU whose blocks can't be near it. */
  private void addProblem(NumaGpu gpu, NumaPlan plan, List<Finding> findings) {
    NumaNode node = topology.node(gpu.node());
    if (node == null) {
      findings.add(
          Finding.warn(
              CHECK,
              "the kernel does not know the NUMA node of GPU " + gpu.pciId(),
              "look for NUMA settings in the BIOS, or give the virtual machine a topology: the"
                  + " GPU's blocks are on all NUMA nodes"));
      return;
    }
    if (!node.mayHold()) {
      int home = plan.ofGpu(gpu.pciId());
      findings.add(
          Finding.warn(
              CHECK,
              "GPU "
                  + gpu.pciId()
                  + " is on NUMA node "
                  + node.number()
                  + ", from which the daemon may take no memory"
                  + (home == NumaPlan.NONE
                      ? ""
                      : ": its blocks are on NUMA node " + plan.homes().get(home).node()),
              "allow NUMA node "
                  + node.number()
                  + " (cpuset, AllowedMemoryNodes=, docker --cpuset-mems, numactl)"));
    }
  }

  /** Whether the kernel takes a policy for memory. */
  private List<Finding> refused(int node) {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("kvtier-doctor", SharedMemory.pageBytes())) {
      MemorySegment page = SharedMemory.map(file, SharedMemory.pageBytes(), true, arena);
      calls.prefer(page, node);
      return List.of();
    } catch (IOException e) {
      return List.of(
          Finding.warn(
              CHECK,
              "slabs can't be bound to NUMA nodes: " + e.getMessage(),
              "allow mbind (docker run --cap-add SYS_NICE, or a seccomp profile): without it, memory"
                  + " comes from the NUMA node of the thread that touches it first"));
    }
  }
}

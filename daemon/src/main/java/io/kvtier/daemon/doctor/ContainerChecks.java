package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.MachineMemory;
import io.kvtier.tiers.files.ByteSize;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Checks what containers often lack: memory of the control group, and GPUs. */
final class ContainerChecks {
  /** Native memory of the Java runtime, of libraries and of connections, with little to do. */
  private static final long OTHER_BYTES = 256L << 20;

  /** Recommended sizes are multiples of this step, so that words can show them exactly. */
  private static final long STEP_BYTES = 512L << 20;

  /**
   * The container, as the checks see it.
   *
   * @param groupBytes the memory that the control group allows; 0 for no limit
   * @param machineBytes all memory of the machine
   * @param heapBytes the maximum size of the Java heap
   * @param gpuNode the device file that every use of a GPU needs
   * @param gpuDriver a file that exists if the machine has NVIDIA's driver, also in a container
   *     without GPUs
   * @param environment the variables of this process
   */
  record Surroundings(
      long groupBytes,
      long machineBytes,
      long heapBytes,
      Path gpuNode,
      Path gpuDriver,
      Map<String, String> environment) {
    static Surroundings ofThisProcess() {
      return new Surroundings(
          MachineMemory.groupBytes(),
          MachineMemory.totalBytes(),
          Runtime.getRuntime().maxMemory(),
          GpuChecks.NODE,
          Path.of("/proc/driver/nvidia/version"),
          System.getenv());
    }
  }

  private final KvtierdConfig config;
  private final Surroundings surroundings;

  ContainerChecks(KvtierdConfig config, Surroundings surroundings) {
    this.config = config;
    this.surroundings = surroundings;
  }

  /** The findings for this container: empty without a memory limit and without a driver. */
  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    if (surroundings.groupBytes() > 0 && surroundings.groupBytes() < surroundings.machineBytes()) {
      findings.add(memory());
    }
    if (config.copies().gpu().enabled()) {
      gpus(findings);
    }
    return findings;
  }

  /**
   * Compares the limit with the memory of the daemon. The kernel counts memory of blocks for the
   * process that touches it first: the daemon.
   */
  private Finding memory() {
    long annotations = config.annotationBytes();
    long needed =
        config.tiers().host().memory().bytes()
            + surroundings.heapBytes()
            + annotations
            + OTHER_BYTES;
    String what =
        "the control group allows "
            + ByteSize.words(surroundings.groupBytes())
            + "; host.bytes ("
            + ByteSize.words(config.tiers().host().memory().bytes())
            + "), the Java heap (up to "
            + ByteSize.words(surroundings.heapBytes())
            + "), annotations (up to "
            + ByteSize.words(annotations)
            + ") and all else count against it";
    return needed > surroundings.groupBytes()
        ? Finding.warn(
            "container memory",
            what + ": the kernel may end the daemon",
            "raise the memory limit of the container to "
                + ByteSize.words(Math.ceilDiv(needed, STEP_BYTES) * STEP_BYTES)
                + " or more, or lower host.bytes")
        : Finding.pass("container memory", what);
  }

  private void gpus(List<Finding> findings) {
    boolean hasNode = Files.exists(surroundings.gpuNode());
    if (!hasNode && Files.exists(surroundings.gpuDriver())) {
      findings.add(
          Finding.warn(
              "GPU devices",
              "this machine has NVIDIA's driver, and "
                  + surroundings.gpuNode()
                  + " is not here: engines must copy blocks themselves",
              "start the container with NVIDIA's runtime and NVIDIA_VISIBLE_DEVICES=all (docker"
                  + " run --gpus all; Kubernetes: runtimeClassName nvidia), start"
                  + " nvidia-persistenced on a machine without containers, or set gpu.enabled to"
                  + " off"));
    }
    String visible = surroundings.environment().getOrDefault("NVIDIA_VISIBLE_DEVICES", "all");
    if (hasNode && !visible.equals("all") && !visible.isEmpty()) {
      findings.add(
          Finding.warn(
              "GPU devices",
              "NVIDIA_VISIBLE_DEVICES is "
                  + visible
                  + ": engines on other GPUs of this machine must copy blocks themselves",
              "set it to all for the daemon: that allocates no GPU, and engines keep theirs"));
    }
  }
}

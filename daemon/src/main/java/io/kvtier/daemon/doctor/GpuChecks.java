package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.GpuConfig;
import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.GpuProbe;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** GPUs, their driver, and whether this process can share memory with engines. */
final class GpuChecks {
  private static final Path NODE = Path.of("/dev/nvidiactl");

  private final GpuConfig config;
  private final Supplier<GpuProbe> gpus;

  GpuChecks(GpuConfig config, Supplier<GpuProbe> gpus) {
    this.config = config;
    this.gpus = gpus;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    if (!config.enabled()) {
      findings.add(Finding.pass("GPU", "not wanted: gpu.enabled is off"));
      return findings;
    }
    switch (gpus.get()) {
      case GpuProbe.NoGpu(String reason) -> {
        boolean hasNode = Files.exists(NODE);
        findings.add(
            hasNode
                ? Finding.fail(
                    "GPU",
                    NODE + " is there, but " + reason,
                    "install a driver of CUDA 12 or newer (in a container: its toolkit, --gpus"
                        + " all), and give the daemon's user /dev/nvidia*; or set gpu.enabled to"
                        + " off")
                : Finding.pass("GPU", "none: " + reason));
      }
      case GpuProbe.Found(var driver) -> {
        findings.add(Finding.pass("GPU driver", driver.version()));
        for (GpuDevice device : driver.devices()) {
          findings.add(
              Finding.pass("GPU " + device.ordinal(), device.name() + ", " + device.uuid()));
        }
        findings.add(sharing(driver.devices().size()));
      }
    }
    return findings;
  }

  /** Handles of GPU memory name the device, which both sides have to see. */
  private static Finding sharing(int devices) {
    String visible = System.getenv("CUDA_VISIBLE_DEVICES");
    if (visible != null && !visible.isEmpty()) {
      return Finding.warn(
          "GPU sharing",
          "CUDA_VISIBLE_DEVICES is " + visible + ": this process sees " + devices + " GPUs",
          "unset it for the daemon: it has to see every GPU that an engine uses");
    }
    return Finding.pass(
        "GPU sharing",
        devices
            + " GPUs are seen; an engine in a container has to share the host's IPC namespace"
            + " (--ipc=host) for CUDA's handles");
  }
}

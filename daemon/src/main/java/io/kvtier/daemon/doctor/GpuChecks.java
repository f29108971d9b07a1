package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.GpuConfig;
import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.GpuLink;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.IpcHandle;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Checks the driver and the GPUs: whether a process can open another process's memory on each GPU,
 * and how GPUs reach each other.
 */
final class GpuChecks {
  static final Path NODE = Path.of("/dev/nvidiactl");
  private static final int OUT_OF_MEMORY = 2;

  private final GpuConfig config;
  private final Supplier<GpuProbe> gpus;
  private final Supplier<Lender> lenders;
  private final Path daemon;
  private final Path own;

  /**
   * Checks for a configuration.
   *
   * @param lenders makes the process whose memory is opened
   * @param daemon the folder of the daemon in /proc; this process's folder if no daemon runs
   * @param own the folder of this process in /proc
   */
  GpuChecks(
      GpuConfig config, Supplier<GpuProbe> gpus, Supplier<Lender> lenders, Path daemon, Path own) {
    this.config = config;
    this.gpus = gpus;
    this.lenders = lenders;
    this.daemon = daemon;
    this.own = own;
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
        try (Lender lender = lenders.get()) {
          for (GpuDevice device : driver.devices()) {
            findings.add(ipc(driver, device, lender));
          }
        }
        if (driver.devices().size() > 1) {
          for (GpuDevice device : driver.devices()) {
            findings.add(peers(driver, device));
          }
        }
      }
    }
    return findings;
  }

  /**
   * Whether engines can pass memory and events. A handle of GPU memory names its device, so both
   * sides must see that device. An event is a file in /dev/shm that only its maker's user can open.
   */
  private Finding sharing(int devices) {
    String visible = System.getenv("CUDA_VISIBLE_DEVICES");
    if (visible != null && !visible.isEmpty()) {
      return Finding.warn(
          "GPU sharing",
          "CUDA_VISIBLE_DEVICES is " + visible + ": this process sees " + devices + " GPUs",
          "unset it for the daemon: it has to see every GPU that an engine uses");
    }
    for (String namespace : List.of("ipc", "pid")) {
      if (isApart(namespace)) {
        return Finding.warn(
            "GPU sharing",
            "the daemon is in another "
                + namespace
                + " namespace than this process: what is found here does not hold for it",
            "run the doctor in the daemon's container");
      }
    }
    return Finding.pass(
        "GPU sharing",
        devices
            + " GPUs are seen; an engine of another user or in another container waits for its own"
            + " GPU before each copy, as the daemon can't open its events");
  }

  /** Whether the daemon certainly runs in another namespace of the given kind. */
  private boolean isApart(String namespace) {
    try {
      Path link = Path.of("ns", namespace);
      return !Files.readSymbolicLink(daemon.resolve(link))
          .equals(Files.readSymbolicLink(own.resolve(link)));
    } catch (IOException _) {
      // The process is another user's: only root can read its namespaces.
      return false;
    }
  }

  /** Opens and reads another process's memory, as the daemon opens an engine's memory. */
  private static Finding ipc(GpuDriver driver, GpuDevice device, Lender lender) {
    String check = "GPU " + device.ordinal() + " IPC";
    return switch (lender.lend(device)) {
      case Lender.Answer.Refused(String reason) -> untried(check, reason);
      case Lender.Answer.Lent(IpcHandle handle) -> {
        try {
          yield opened(driver.open(device), handle, check);
        } catch (GpuException e) {
          yield e.code() == OUT_OF_MEMORY
              ? untried(check, e.reason())
              : unusable(check, "another process's memory can't be opened: " + e.reason());
        }
      }
    };
  }

  private static Finding opened(Gpu gpu, IpcHandle handle, String check) {
    long address = gpu.open(handle).address();
    try {
      return GpuMemory.has(gpu, address)
          ? Finding.pass(check, "another process's memory was opened and read")
          : unusable(check, "another process's memory was opened, and holds other bytes");
    } finally {
      gpu.close(handle);
    }
  }

  private static Finding untried(String check, String reason) {
    return Finding.warn(
        check,
        "opening another process's memory could not be tried: " + reason,
        reason.contains("OUT_OF_MEMORY")
            ? "look again with some 600 MiB of the GPU free for each of two processes"
            : "run the doctor as the daemon's user, and in its container");
  }

  private static Finding unusable(String check, String what) {
    return Finding.fail(
        check,
        what,
        "CUDA's IPC has to work between processes here: outside of WSL and of sandboxes, in a"
            + " virtual GPU only where its profile has it, with some drivers in a container only"
            + " with --ipc=host --pid=host; or have engines use memory that passes as descriptors"
            + " (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True); or set gpu.enabled to off");
  }

  /** How the GPUs reach each other. */
  private static Finding peers(GpuDriver driver, GpuDevice device) {
    String check = "GPU " + device.ordinal() + " peers";
    Map<GpuLink, List<String>> others = new EnumMap<>(GpuLink.class);
    try {
      for (GpuDevice other : driver.devices()) {
        if (!other.equals(device)) {
          others
              .computeIfAbsent(driver.link(device, other), _ -> new ArrayList<>())
              .add(String.valueOf(other.ordinal()));
        }
      }
    } catch (GpuException e) {
      return Finding.warn(check, "can't be told: " + e.reason(), "look into the driver's messages");
    }
    List<String> told = new ArrayList<>();
    tell(told, "reaches over NVLink ", others.get(GpuLink.NVLINK));
    tell(told, "reaches over PCIe ", others.get(GpuLink.PCIE));
    tell(told, "does not reach ", others.get(GpuLink.NONE));
    String what = String.join("; ", told);
    return others.containsKey(GpuLink.NONE)
        ? Finding.warn(
            check,
            what,
            "blocks go between these through the host's memory, which is slower; nvidia-smi topo"
                + " -p2p r says why: other kinds of GPU, the chipset, or the BIOS's ACS or IOMMU")
        : Finding.pass(check, what);
  }

  private static void tell(List<String> told, String how, @Nullable List<String> ordinals) {
    if (ordinals != null) {
      told.add(how + String.join(", ", ordinals));
    }
  }
}

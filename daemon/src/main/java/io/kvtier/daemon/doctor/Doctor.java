package io.kvtier.daemon.doctor;

import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.plugins.Plugins;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaHomes;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** Checks this machine for everything that a daemon with a configuration needs. */
public final class Doctor {
  private final KvtierdConfig config;
  private final long daemonPid;
  private final Supplier<GpuProbe> gpus;

  /**
   * A doctor for one configuration.
   *
   * @param daemonPid the process of the daemon that runs with this configuration; 0 for none
   */
  public Doctor(KvtierdConfig config, long daemonPid, Supplier<GpuProbe> gpus) {
    this.config = config;
    this.daemonPid = daemonPid;
    this.gpus = gpus;
  }

  /** All findings. The checks write probe files and a probe object, and change nothing else. */
  public List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    MachineChecks machine = new MachineChecks(config, daemonPid);
    findings.add(machine.kernel());
    findings.add(machine.memory());
    findings.addAll(
        new ContainerChecks(config, ContainerChecks.Surroundings.ofThisProcess()).findings());
    findings.add(machine.sharedMemory());
    findings.add(machine.lockedMemory());
    findings.add(machine.hugePages());
    findings.addAll(numaChecks().findings());
    findings.add(machine.openFiles());
    findings.add(machine.socketFolder());
    findings.add(machine.clock());
    findings.add(machine.remoteCallers());
    findings.add(plugins(config.tiers().plugins().plugins()));
    if (daemonPid == 0) {
      Stream.of(Listener.grpc(config), Listener.http(config))
          .filter(Listener::enabled)
          .forEach(listener -> findings.add(machine.port(listener)));
    }
    if (config.tiers().ssd().space().bytes() > 0) {
      findings.addAll(new DiskChecks(config.tiers().ssd(), daemonPid != 0).findings());
    }
    findings.addAll(gpuChecks().findings());
    findings.addAll(new StoreChecks(config.tiers().object()).findings());
    findings.addAll(new NodeChecks(config.network().nodes(), daemonPid != 0).findings());
    return findings;
  }

  /**
   * The loaded plug-ins. A plug-in that can't be loaded is a mistake of the configuration, which is
   * reported before.
   */
  private static Finding plugins(Plugins plugins) {
    return plugins.folder() != null && plugins.parts().isEmpty()
        ? Finding.warn(
            "plug-ins", plugins.describe(), "put jars there, or leave plugins.directory empty")
        : Finding.pass("plug-ins", plugins.describe());
  }

  private NumaChecks numaChecks() {
    return new NumaChecks(
        config.tiers().host().memory(),
        new NumaFiles(daemonPid == 0 ? "self" : String.valueOf(daemonPid))
            .read(daemonPid == 0 ? NumaHomes.nodesOfOperator() : new BitSet()),
        NumaCalls.LINUX);
  }

  private GpuChecks gpuChecks() {
    Path own = Path.of("/proc/self");
    return new GpuChecks(
        config.copies().gpu(),
        gpus,
        LenderProcess::new,
        daemonPid == 0 ? own : Path.of("/proc", String.valueOf(daemonPid)),
        own);
  }
}

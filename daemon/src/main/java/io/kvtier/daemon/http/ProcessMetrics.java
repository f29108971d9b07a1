package io.kvtier.daemon.http;

import com.sun.management.UnixOperatingSystemMXBean;
import io.prometheus.metrics.model.registry.MultiCollector;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The process under the names that all Prometheus client libraries give it: {@code process_*}. The
 * start time and the uptime come from elsewhere.
 */
final class ProcessMetrics implements MultiCollector {
  private static final Path STATUS = Path.of("/proc/self/status");

  @Override
  public MetricSnapshots collect() {
    Families out = new Families();
    if (ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean system) {
      out.counter(
          "process_cpu_seconds",
          "Processor time that the process used",
          system.getProcessCpuTime() / 1e9);
      out.gauge(
          "process_open_fds",
          "Open file descriptors",
          (double) system.getOpenFileDescriptorCount());
      out.gauge(
          "process_max_fds",
          "Highest number of file descriptors that may be open",
          (double) system.getMaxFileDescriptorCount());
    }
    try {
      for (String line : Files.readAllLines(STATUS)) {
        if (line.startsWith("VmRSS:")) {
          out.gauge(
              "process_resident_memory_bytes",
              "Resident memory, with the host tier's pages that are in use",
              bytes(line));
        } else if (line.startsWith("VmSize:")) {
          out.gauge("process_virtual_memory_bytes", "Virtual memory", bytes(line));
        }
      }
    } catch (IOException e) {
      // Without /proc the families of memory are left out.
    }
    return out.snapshots();
  }

  private static double bytes(String line) {
    return 1024.0 * Long.parseLong(line.replaceAll("[^0-9]", ""));
  }
}

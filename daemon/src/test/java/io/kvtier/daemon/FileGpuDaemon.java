package io.kvtier.daemon;

import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.tiers.gpu.GpuProbe;
import java.nio.file.Path;

/**
 * The daemon with two GPUs of shared memory, for tests of it with real client processes: arguments
 * as of {@link Kvtierd}; the properties {@code kvtier.gpu.folder} and {@code kvtier.gpu.delay_ms}
 * are the GPU's.
 */
public final class FileGpuDaemon {
  private FileGpuDaemon() {}

  public static void main(String[] arguments) {
    Path folder = Path.of(System.getProperty("kvtier.gpu.folder", "/dev/shm"));
    FileGpu gpu = new FileGpu(folder, Long.getLong("kvtier.gpu.delay_ms", 0));
    FileGpu _ = gpu.addSibling();
    Kvtierd.main(arguments, () -> new GpuProbe.Found(gpu));
  }
}

package io.kvtier.daemon.doctor;

import io.kvtier.tiers.gpu.CudaDriver;
import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.GpuProbe;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * The program behind {@link LenderProcess}: for each line with a GPU's UUID it answers with the
 * handle of an allocation, or why there is none, and ends with its input.
 */
final class GpuLender {
  static final String LENT = "lent ";
  static final String REFUSED = "refused ";

  private GpuLender() {}

  public static void main(String[] arguments) throws IOException {
    serve(
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)),
        new PrintStream(System.out, true, StandardCharsets.UTF_8),
        CudaDriver.probe());
  }

  static void serve(BufferedReader asked, PrintStream answers, GpuProbe probe) throws IOException {
    for (String uuid = asked.readLine(); uuid != null; uuid = asked.readLine()) {
      answers.println(
          switch (probe) {
            case GpuProbe.NoGpu none -> REFUSED + none;
            case GpuProbe.Found(GpuDriver driver) -> answer(driver, uuid);
          });
    }
  }

  private static String answer(GpuDriver driver, String uuid) {
    for (GpuDevice device : driver.devices()) {
      if (device.isNamed(uuid)) {
        try {
          Gpu gpu = driver.open(device);
          long address = gpu.allocate(GpuMemory.BYTES);
          GpuMemory.write(gpu, address);
          return LENT + gpu.share(address);
        } catch (GpuException e) {
          return REFUSED + e.reason().lines().findFirst().orElse("");
        }
      }
    }
    return REFUSED + "it sees no GPU " + uuid;
  }
}

package io.kvtier.bench.gpu;

import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuStream;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * What the link between GPU and host carries, in GB/s: large contiguous copies of registered memory
 * by the copy engines, each way alone, and both ways at once.
 */
record LinkLimits(double offload, double onboard, double both) {
  private static final long COPY_BYTES = 64 << 20;
  private static final int COPIES = 12;
  private static final int ROUNDS = 5;

  /**
   * Measures, the median of several rounds.
   *
   * @param hostBytes at least two copies' worth
   */
  static LinkLimits measure(Gpu gpu, long hostAddress, long hostBytes) {
    if (hostBytes < 2 * COPY_BYTES) {
      throw new IllegalArgumentException(
          "host memory of " + hostBytes + " bytes: expected at least " + 2 * COPY_BYTES);
    }
    long device = gpu.allocate(2 * COPY_BYTES);
    GpuStream first = gpu.createStream(true);
    GpuStream second = gpu.createStream(true);
    double[] offload = new double[ROUNDS];
    double[] onboard = new double[ROUNDS];
    double[] both = new double[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
      double out = rate(gpu, first, null, device, hostAddress);
      double in = rate(gpu, null, second, device, hostAddress);
      double all = rate(gpu, first, second, device, hostAddress);
      if (round >= 0) {
        offload[round] = out;
        onboard[round] = in;
        both[round] = all;
      }
    }
    gpu.destroy(first);
    gpu.destroy(second);
    gpu.free(device);
    return new LinkLimits(median(offload), median(onboard), median(both));
  }

  private static double rate(
      Gpu gpu, @Nullable GpuStream out, @Nullable GpuStream in, long device, long host) {
    long bytes = 0;
    long start = System.nanoTime();
    for (int i = 0; i < COPIES; i++) {
      if (out != null) {
        gpu.copy(out, host, device, COPY_BYTES);
        bytes += COPY_BYTES;
      }
      if (in != null) {
        gpu.copy(in, device + COPY_BYTES, host + COPY_BYTES, COPY_BYTES);
        bytes += COPY_BYTES;
      }
    }
    if (out != null) {
      gpu.synchronize(out);
    }
    if (in != null) {
      gpu.synchronize(in);
    }
    return (double) bytes / (System.nanoTime() - start);
  }

  private static double median(double[] values) {
    Arrays.sort(values);
    return values[values.length / 2];
  }
}

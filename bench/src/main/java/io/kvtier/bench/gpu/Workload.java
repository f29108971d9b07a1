package io.kvtier.bench.gpu;

import io.kvtier.layout.IndexRange;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.Copy;
import io.kvtier.tiers.gpu.CopyEngine;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.GpuEvent;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Whole blocks copied between a region and slots of host memory, in an order that chance made.
 * Block b always goes with slot b, so that what was put is what is got.
 */
final class Workload {
  /**
   * What a run came to.
   *
   * @param problem "ok", or what went wrong
   */
  record Result(long bytes, double seconds, double cpuSeconds, String problem) {
    double gigabytesPerS() {
      return bytes / seconds / 1e9;
    }

    double cpuSecondsPerGigabyte() {
      return cpuSeconds / (bytes / 1e9);
    }

    /** Both of two that ran at the same time. */
    Result with(Result other) {
      return new Result(
          bytes + other.bytes,
          Math.max(seconds, other.seconds),
          cpuSeconds + other.cpuSeconds,
          problem.equals("ok") ? other.problem : problem);
    }
  }

  private static final int IN_FLIGHT = 32;

  /** A GPU that has all batches in hand is busy for longer than this. */
  private static final long PARK_NS = 10_000;

  private final DeviceRegion region;
  private final long hostAddress;
  private final int[] blocks;
  private final boolean parks;
  private int next;
  private int failed;
  private long bytes;

  /** Parks: whether the thread sleeps while the GPU is busy for a while. */
  Workload(DeviceRegion region, long hostAddress, long hostBytes, long seed, boolean parks) {
    this.region = region;
    this.hostAddress = hostAddress;
    this.parks = parks;
    int count = (int) Math.min(region.layout().blocks(), hostBytes / region.layout().blockBytes());
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      order.add(i);
    }
    Collections.shuffle(order, new Random(seed));
    blocks = order.stream().mapToInt(Integer::intValue).toArray();
  }

  private boolean submitNext(CopyEngine engine, Copy copy) {
    int block = blocks[next];
    next = (next + 1) % blocks.length;
    copy.runs.clear();
    region.addRuns(
        block,
        IndexRange.all(region.layout().layers()),
        IndexRange.all(region.layout().heads()),
        hostAddress + (long) block * region.layout().blockBytes(),
        copy.runs);
    return engine.submit(copy);
  }

  /** Copies as long as it goes on, with many blocks in flight. */
  Result run(CopyEngine engine, BooleanSupplier goesOn) {
    bytes = 0;
    failed = 0;
    double cpu = cpuSeconds();
    long start = System.nanoTime();
    for (int i = 0; i < IN_FLIGHT; i++) {
      if (!submitNext(engine, new Copy())) {
        return new Result(0, 1, 0, "failed no room for " + IN_FLIGHT + " copies");
      }
    }
    while (engine.inFlight() > 0) {
      boolean more = goesOn.getAsBoolean();
      int count =
          engine.poll(copy -> {
            bytes += copy.runs.totalBytes();
            failed += copy.status == Status.OK ? 0 : 1;
            if (more && !submitNext(engine, copy)) {
              failed++;
            }
          });
      if (count == 0 && parks && engine.isFull()) {
        LockSupport.parkNanos(PARK_NS);
      } else if (count == 0) {
        Thread.onSpinWait();
      }
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    String problem = failed == 0 ? "ok" : "failed " + failed + " copies: " + engine.fence();
    return new Result(bytes, seconds, cpuSeconds() - cpu, problem);
  }

  private static double cpuSeconds() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
  }

  /** The times of single copies, one after the other, in µs, sorted. */
  double[] latencies(CopyEngine engine, int count) {
    double[] us = new double[count];
    Copy copy = new Copy();
    int warmUp = count / 4;
    for (int i = -warmUp; i < count; i++) {
      long start = System.nanoTime();
      if (!submitNext(engine, copy)) {
        throw new IllegalStateException("the engine has no room for a copy");
      }
      while (engine.poll(_ -> {}) == 0) {
        Thread.onSpinWait();
      }
      if (i >= 0) {
        us[i] = (System.nanoTime() - start) / 1e3;
      }
    }
    Arrays.sort(us);
    return us;
  }

  /** Copies these blocks, all at once, after an event; returns "ok" or what went wrong. */
  static String copyAll(
      CopyEngine engine,
      DeviceRegion region,
      List<Long> blocks,
      List<Long> hostAddresses,
      IndexRange layers,
      IndexRange heads,
      @Nullable GpuEvent after) {
    int refused = 0;
    List<Copy> finished = new ArrayList<>();
    for (int i = 0; i < blocks.size(); i++) {
      Copy copy = new Copy();
      copy.after = after;
      region.addRuns(
          Math.toIntExact(blocks.get(i)), layers, heads, hostAddresses.get(i), copy.runs);
      refused += engine.submit(copy) ? 0 : 1;
    }
    while (engine.inFlight() > 0) {
      engine.poll(finished::add);
    }
    boolean allThere = finished.stream().allMatch(copy -> copy.status == Status.OK);
    return allThere && refused == 0 ? "ok" : "failed " + refused + " refused, " + engine.fence();
  }
}

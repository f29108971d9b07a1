package io.kvtier.layout;

import java.util.List;

/**
 * Runs of equal length at equal distances, in up to three dimensions. One grid describes all the
 * runs of a layer of a block, so that short runs cost the processor no more than long ones.
 *
 * <p>The runs have numbers. The inner dimension counts fastest, then the middle one. A grid says
 * nothing about where its first run is.
 *
 * @param runBytes the length of each run
 */
public record RunGrid(int runBytes, Dimension inner, Dimension middle, Dimension outer) {
  /** How many dimensions a grid has at most. */
  public static final int DIMENSIONS = 3;

  /**
   * One dimension.
   *
   * @param count how many runs lie side by side
   * @param deviceStride the distance in bytes from one to the next on the device; 0 for one run
   * @param hostStride the distance in bytes from one to the next on the host; 0 for one run
   */
  public record Dimension(int count, long deviceStride, long hostStride) {
    private static final Dimension ONE = new Dimension(1, 0, 0);

    public Dimension {
      if (count < 1) {
        throw new IllegalArgumentException(count + " runs in a dimension: expected 1 or more");
      }
      if (count == 1) {
        // The strides of one run have no meaning, and would make equal grids different.
        deviceStride = 0;
        hostStride = 0;
      }
    }

    private long last() {
      return count - 1L;
    }
  }

  public RunGrid {
    if (runBytes < 1) {
      throw new IllegalArgumentException("runs of " + runBytes + " bytes: expected 1 or more");
    }
    long bytes = runBytes;
    for (Dimension dimension : List.of(inner, middle, outer)) {
      requireStride(dimension, dimension.deviceStride, runBytes, "device");
      requireStride(dimension, dimension.hostStride, runBytes, "host");
      bytes *= dimension.count;
      if (bytes > Integer.MAX_VALUE) {
        throw new IllegalArgumentException(
            "a grid of " + bytes + " bytes: expected at most " + Integer.MAX_VALUE);
      }
    }
    try {
      long device = 0;
      long host = 0;
      for (Dimension dimension : List.of(inner, middle, outer)) {
        device =
            Math.addExact(device, Math.multiplyExact(dimension.last(), dimension.deviceStride));
        host = Math.addExact(host, Math.multiplyExact(dimension.last(), dimension.hostStride));
      }
      long ignored = Math.addExact(Math.max(device, host), runBytes);
    } catch (ArithmeticException _) {
      throw new IllegalArgumentException(
          "a grid with strides "
              + List.of(inner, middle, outer)
              + " spans more than 64 bits can count");
    }
  }

  private static void requireStride(Dimension dimension, long stride, int runBytes, String side) {
    if (dimension.count > 1 && stride < runBytes) {
      throw new IllegalArgumentException(
          "stride "
              + stride
              + " on the "
              + side
              + " of runs of "
              + runBytes
              + " bytes: expected at least the length of a run");
    }
  }

  /**
   * Makes a grid of dimensions with more than one run.
   *
   * @param dimensions at most three, the fastest one first
   */
  public static RunGrid of(int runBytes, List<Dimension> dimensions) {
    return new RunGrid(
        runBytes,
        dimensions.isEmpty() ? Dimension.ONE : dimensions.get(0),
        dimensions.size() < 2 ? Dimension.ONE : dimensions.get(1),
        dimensions.size() < DIMENSIONS ? Dimension.ONE : dimensions.get(2));
  }

  /** How many runs there are. */
  public int runs() {
    return inner.count * middle.count * outer.count;
  }

  /** The bytes of all runs. */
  public int bytes() {
    return runs() * runBytes;
  }

  /** The distance on the device from the first byte of the first run to the end of the last run. */
  public long deviceExtent() {
    return deviceOffset(runs() - 1) + runBytes;
  }

  /** The distance on the host from the first byte of the first run to the end of the last run. */
  public long hostExtent() {
    return hostOffset(runs() - 1) + runBytes;
  }

  /** The distance on the device from the first run to another one. */
  public long deviceOffset(int run) {
    int row = run / inner.count;
    return run % inner.count * inner.deviceStride
        + row % middle.count * middle.deviceStride
        + row / middle.count * outer.deviceStride;
  }

  /** The distance on the host from the first run to another one. */
  public long hostOffset(int run) {
    int row = run / inner.count;
    return run % inner.count * inner.hostStride
        + row % middle.count * middle.hostStride
        + row / middle.count * outer.hostStride;
  }

  /** How many consecutive runs lie side by side on the host: this many are one piece there. */
  public int runsOfHostSpan() {
    if (inner.count > 1 && inner.hostStride != runBytes) {
      return 1;
    }
    int runs = inner.count;
    if (middle.count > 1 && middle.hostStride != (long) runs * runBytes) {
      return runs;
    }
    runs *= middle.count;
    return outer.count > 1 && outer.hostStride != (long) runs * runBytes
        ? runs
        : runs * outer.count;
  }

  /** Whether both grids have the same runs on the host. */
  boolean isCutAs(RunGrid other) {
    return runBytes == other.runBytes
        && isCutAs(inner, other.inner)
        && isCutAs(middle, other.middle)
        && isCutAs(outer, other.outer);
  }

  private static boolean isCutAs(Dimension one, Dimension other) {
    return one.count == other.count && one.hostStride == other.hostStride;
  }

  /**
   * The grid of a copy from one device memory to another. Its host side is the source's device
   * side.
   *
   * @param source the grid of the source, for which {@link #isCutAs} is true
   */
  RunGrid from(RunGrid source) {
    return new RunGrid(
        runBytes,
        new Dimension(inner.count, inner.deviceStride, source.inner.deviceStride),
        new Dimension(middle.count, middle.deviceStride, source.middle.deviceStride),
        new Dimension(outer.count, outer.deviceStride, source.outer.deviceStride));
  }
}

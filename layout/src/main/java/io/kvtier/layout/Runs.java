package io.kvtier.layout;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The runs of a copy: contiguous spans of bytes, each with an address on the device and an address
 * on the host. An entry of the list is one run, or a {@link RunGrid} of many. A list is reused for
 * many copies, and grows to the largest of them. Only one thread at a time may use a list.
 */
public final class Runs {
  private static final int FIRST_CAPACITY = 64;

  /** The largest capacity that {@link #clear} keeps. */
  private static final int KEPT_CAPACITY = 8192;

  private long[] deviceAddresses = new long[FIRST_CAPACITY];
  private long[] hostAddresses = new long[FIRST_CAPACITY];
  private int[] lengths = new int[FIRST_CAPACITY];
  private @Nullable RunGrid[] grids = new RunGrid[FIRST_CAPACITY];
  private int entries;
  private int count;
  private int hostSpans;
  private long hostEnd;
  private long totalBytes;

  /** Removes all runs. */
  public void clear() {
    // A list that is reused must not keep the grids of a region that has ended.
    Arrays.fill(grids, 0, entries, null);
    entries = 0;
    count = 0;
    hostSpans = 0;
    totalBytes = 0;
    if (lengths.length > KEPT_CAPACITY) {
      deviceAddresses = new long[FIRST_CAPACITY];
      hostAddresses = new long[FIRST_CAPACITY];
      lengths = new int[FIRST_CAPACITY];
      grids = new RunGrid[FIRST_CAPACITY];
    }
  }

  /** Adds a run. A run that continues the last one on both sides makes the last one longer. */
  public void add(long deviceAddress, long hostAddress, int bytes) {
    int last = entries - 1;
    if (last >= 0
        && grids[last] == null
        && deviceAddresses[last] + lengths[last] == deviceAddress
        && hostEnd == hostAddress
        && lengths[last] <= Integer.MAX_VALUE - bytes) {
      lengths[last] += bytes;
      hostEnd += bytes;
      totalBytes += bytes;
      return;
    }
    addSeparate(deviceAddress, hostAddress, bytes);
  }

  /** Adds a run that is never joined with the last one. */
  public void addSeparate(long deviceAddress, long hostAddress, int bytes) {
    hostSpans += isBehindTheLast(hostAddress) ? 0 : 1;
    append(deviceAddress, hostAddress, bytes, null);
    hostEnd = hostAddress + bytes;
    count++;
  }

  /**
   * Adds the runs of a grid.
   *
   * @param deviceAddress the address of the first run on the device
   * @param hostAddress the address of the first run on the host
   */
  public void add(long deviceAddress, long hostAddress, RunGrid grid) {
    int runs = grid.runs();
    hostSpans += runs / grid.runsOfHostSpan() - (isBehindTheLast(hostAddress) ? 1 : 0);
    append(deviceAddress, hostAddress, grid.bytes(), grid);
    hostEnd = hostAddress + grid.hostExtent();
    count += runs;
  }

  private boolean isBehindTheLast(long hostAddress) {
    return entries > 0 && hostEnd == hostAddress;
  }

  private void append(long deviceAddress, long hostAddress, int bytes, @Nullable RunGrid grid) {
    if (entries == lengths.length) {
      deviceAddresses = Arrays.copyOf(deviceAddresses, 2 * entries);
      hostAddresses = Arrays.copyOf(hostAddresses, 2 * entries);
      lengths = Arrays.copyOf(lengths, 2 * entries);
      grids = Arrays.copyOf(grids, 2 * entries);
    }
    deviceAddresses[entries] = deviceAddress;
    hostAddresses[entries] = hostAddress;
    lengths[entries] = bytes;
    grids[entries] = grid;
    totalBytes += bytes;
    entries++;
  }

  /**
   * In how many pieces the bytes lie on the host: a run whose host bytes lie right behind those of
   * the run before it is in the same piece.
   */
  public int hostSpans() {
    return hostSpans;
  }

  /**
   * Adds runs that copy a block from one device memory to another. Both lists must cover the same
   * host bytes in the same order. Their runs may begin and end at different bytes. In the added
   * runs, the device address is the target's, and the host address is the source's device address.
   *
   * @param targets the runs whose device addresses the copy writes
   * @param sources the runs whose device addresses the copy reads
   * @throws IllegalArgumentException when the lists cover different bytes
   */
  public void addPairs(Runs targets, Runs sources) {
    Cursor target = new Cursor(targets);
    Cursor source = new Cursor(sources);
    while (target.hasMore() && source.hasMore() && target.host() == source.host()) {
      int bytes = Math.min(target.left(), source.left());
      add(target.device(), source.device(), bytes);
      target.advance(bytes);
      source.advance(bytes);
    }
    if (target.hasMore() || source.hasMore()) {
      throw new IllegalArgumentException("the blocks of two regions are not of the same form");
    }
  }

  /** Visits the runs of a list one by one. */
  private static final class Cursor {
    private final Runs runs;
    private int entry;
    private int run;
    private int byteOfRun;

    Cursor(Runs runs) {
      this.runs = runs;
    }

    boolean hasMore() {
      return entry < runs.entries;
    }

    long device() {
      RunGrid grid = runs.grids[entry];
      long first = runs.deviceAddresses[entry] + byteOfRun;
      return grid == null ? first : first + grid.deviceOffset(run);
    }

    long host() {
      RunGrid grid = runs.grids[entry];
      long first = runs.hostAddresses[entry] + byteOfRun;
      return grid == null ? first : first + grid.hostOffset(run);
    }

    /** The bytes of the run that are not visited yet. */
    int left() {
      RunGrid grid = runs.grids[entry];
      return (grid == null ? runs.lengths[entry] : grid.runBytes()) - byteOfRun;
    }

    void advance(int bytes) {
      byteOfRun += bytes;
      if (left() > 0) {
        return;
      }
      byteOfRun = 0;
      run++;
      RunGrid grid = runs.grids[entry];
      if (grid == null || run == grid.runs()) {
        run = 0;
        entry++;
      }
    }
  }

  /** How many entries the list has, each of which is a run or a grid. */
  public int entries() {
    return entries;
  }

  /** How many runs there are, with all those of grids. */
  public int count() {
    return count;
  }

  /** The sum of the bytes of all runs. */
  public long totalBytes() {
    return totalBytes;
  }

  /** The address of an entry's first run on the device. */
  public long deviceAddress(int entry) {
    return deviceAddresses[entry];
  }

  /** The address of an entry's first run on the host, as the device sees it. */
  public long hostAddress(int entry) {
    return hostAddresses[entry];
  }

  /** The bytes of an entry, without the gaps between the runs of a grid. */
  public int bytes(int entry) {
    return lengths[entry];
  }

  /** The grid of an entry; null where the entry is one run. */
  public @Nullable RunGrid grid(int entry) {
    return grids[entry];
  }
}

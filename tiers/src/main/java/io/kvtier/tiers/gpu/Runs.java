package io.kvtier.tiers.gpu;

import java.util.Arrays;

/**
 * The runs of a copy: contiguous spans of bytes, each with its place on the device and its place on
 * the host. A run that goes on where the last one ended, on both sides, is made one with it. Used
 * again and again; grows to what a copy needs. For one thread at a time.
 */
public final class Runs {
  private static final int FIRST_CAPACITY = 64;

  /** More are not kept for the next copy. */
  private static final int KEPT_CAPACITY = 8192;

  private long[] deviceAddresses = new long[FIRST_CAPACITY];
  private long[] hostAddresses = new long[FIRST_CAPACITY];
  private int[] lengths = new int[FIRST_CAPACITY];
  private int count;
  private long totalBytes;

  /** Forgets all runs. */
  public void clear() {
    count = 0;
    totalBytes = 0;
    if (lengths.length > KEPT_CAPACITY) {
      deviceAddresses = new long[FIRST_CAPACITY];
      hostAddresses = new long[FIRST_CAPACITY];
      lengths = new int[FIRST_CAPACITY];
    }
  }

  /** Adds one, or makes the last one longer. */
  public void add(long deviceAddress, long hostAddress, int bytes) {
    totalBytes += bytes;
    int last = count - 1;
    if (last >= 0
        && deviceAddresses[last] + lengths[last] == deviceAddress
        && hostAddresses[last] + lengths[last] == hostAddress
        && lengths[last] <= Integer.MAX_VALUE - bytes) {
      lengths[last] += bytes;
      return;
    }
    append(deviceAddress, hostAddress, bytes);
  }

  /** Adds one that stays apart from those before, wherever it lies. */
  void addApart(long deviceAddress, long hostAddress, int bytes) {
    totalBytes += bytes;
    append(deviceAddress, hostAddress, bytes);
  }

  private void append(long deviceAddress, long hostAddress, int bytes) {
    if (count == lengths.length) {
      deviceAddresses = Arrays.copyOf(deviceAddresses, 2 * count);
      hostAddresses = Arrays.copyOf(hostAddresses, 2 * count);
      lengths = Arrays.copyOf(lengths, 2 * count);
    }
    deviceAddresses[count] = deviceAddress;
    hostAddresses[count] = hostAddress;
    lengths[count] = bytes;
    count++;
  }

  /**
   * Adds runs from one device memory to another, of two lists of the same bytes of a block in the
   * same order, which need not be cut alike.
   *
   * @param targets whose device addresses are copied to
   * @param sources whose device addresses are copied from
   * @throws IllegalArgumentException when they are not of the same bytes
   */
  void addPairs(Runs targets, Runs sources) {
    int target = 0;
    int source = 0;
    int targetByte = 0;
    int sourceByte = 0;
    while (target < targets.count && source < sources.count) {
      long place = targets.hostAddresses[target] + targetByte;
      if (place != sources.hostAddresses[source] + sourceByte) {
        break;
      }
      int bytes =
          Math.min(targets.lengths[target] - targetByte, sources.lengths[source] - sourceByte);
      add(
          targets.deviceAddresses[target] + targetByte,
          sources.deviceAddresses[source] + sourceByte,
          bytes);
      targetByte += bytes;
      sourceByte += bytes;
      if (targetByte == targets.lengths[target]) {
        target++;
        targetByte = 0;
      }
      if (sourceByte == sources.lengths[source]) {
        source++;
        sourceByte = 0;
      }
    }
    if (target < targets.count || source < sources.count) {
      throw new IllegalArgumentException("the blocks of two regions are not of the same form");
    }
  }

  /** How many there are. */
  public int count() {
    return count;
  }

  /** The bytes of all runs. */
  public long totalBytes() {
    return totalBytes;
  }

  /** Where a run is on the device. */
  public long deviceAddress(int run) {
    return deviceAddresses[run];
  }

  /** Where a run is on the host, as the device sees it. */
  public long hostAddress(int run) {
    return hostAddresses[run];
  }

  /** How long a run is. */
  public int bytes(int run) {
    return lengths[run];
  }
}

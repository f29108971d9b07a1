package io.kvtier.layout;

import java.util.Arrays;

/**
 * The runs of a copy: contiguous spans of bytes, each with an address on the device and an address
 * on the host. A list is reused for many copies, and grows to the largest of them. Only one thread
 * at a time may use a list.
 */
public final class Runs {
  private static final int FIRST_CAPACITY = 64;

  /** The largest capacity that {@link #clear} keeps. */
  private static final int KEPT_CAPACITY = 8192;

  private long[] deviceAddresses = new long[FIRST_CAPACITY];
  private long[] hostAddresses = new long[FIRST_CAPACITY];
  private int[] lengths = new int[FIRST_CAPACITY];
  private int count;
  private int hostSpans;
  private long totalBytes;

  /** Removes all runs. */
  public void clear() {
    count = 0;
    hostSpans = 0;
    totalBytes = 0;
    if (lengths.length > KEPT_CAPACITY) {
      deviceAddresses = new long[FIRST_CAPACITY];
      hostAddresses = new long[FIRST_CAPACITY];
      lengths = new int[FIRST_CAPACITY];
    }
  }

  /** Adds a run. A run that continues the last one on both sides makes the last one longer. */
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

  /** Adds a run that is never joined with the last one. */
  public void addSeparate(long deviceAddress, long hostAddress, int bytes) {
    totalBytes += bytes;
    append(deviceAddress, hostAddress, bytes);
  }

  private void append(long deviceAddress, long hostAddress, int bytes) {
    if (count == lengths.length) {
      deviceAddresses = Arrays.copyOf(deviceAddresses, 2 * count);
      hostAddresses = Arrays.copyOf(hostAddresses, 2 * count);
      lengths = Arrays.copyOf(lengths, 2 * count);
    }
    if (count == 0 || hostAddresses[count - 1] + lengths[count - 1] != hostAddress) {
      hostSpans++;
    }
    deviceAddresses[count] = deviceAddress;
    hostAddresses[count] = hostAddress;
    lengths[count] = bytes;
    count++;
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

  /** How many runs there are. */
  public int count() {
    return count;
  }

  /** The sum of the bytes of all runs. */
  public long totalBytes() {
    return totalBytes;
  }

  /** The address of a run on the device. */
  public long deviceAddress(int run) {
    return deviceAddresses[run];
  }

  /** The address of a run on the host, as the device sees it. */
  public long hostAddress(int run) {
    return hostAddresses[run];
  }

  /** The length of a run in bytes. */
  public int bytes(int run) {
    return lengths[run];
  }
}

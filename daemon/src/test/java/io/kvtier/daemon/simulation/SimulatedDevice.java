package io.kvtier.daemon.simulation;

import io.kvtier.tiers.ssd.SlotDevice;
import java.io.IOException;
import java.io.Serial;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;

/**
 * A disk in memory. Its faults, each with a probability of its own for every call:
 *
 * <ul>
 *   <li>read error, write error: the call fails with EIO; a failed write may have changed any
 *       prefix
 *   <li>lost write: acknowledged, nothing written
 *   <li>torn write: acknowledged, only a prefix of whole 4 KiB pages written
 *   <li>misdirected write: acknowledged, written one page further on
 *   <li>bit rot: a read flips one bit, for good
 *   <li>full: this write and some after it fail with ENOSPC, and change nothing
 * </ul>
 */
final class SimulatedDevice implements SlotDevice {
  private static final int PAGE = 4096;

  /** How often each fault strikes, per call. */
  record Faults(
      double readError,
      double writeError,
      double lost,
      double torn,
      double misdirected,
      double rot,
      double full) {
    static final Faults NONE = new Faults(0, 0, 0, 0, 0, 0, 0);
  }

  /** There is no space left. */
  static final class FullException extends IOException {
    @Serial private static final long serialVersionUID = 1L;

    FullException() {
      super("simulated: no space left on device");
    }
  }

  /** Longer than it takes until a device is fenced, and through several of its turns. */
  private static final int FULL_WRITES_MAX = 24;

  private final byte[][] regions;
  private final SplittableRandom random;
  private final Faults faults;
  private long struck;
  private long struckSilently;
  private int fullWrites;

  SimulatedDevice(int regions, int regionBytes, Faults faults, SplittableRandom random) {
    this.regions = new byte[regions][regionBytes];
    this.faults = faults;
    this.random = random;
  }

  private boolean strikes(double probability) {
    boolean strikes = probability > 0 && random.nextDouble() < probability;
    struck += strikes ? 1 : 0;
    return strikes;
  }

  /** A fault that the device does not tell of. */
  private boolean strikesSilently(double probability) {
    boolean strikes = strikes(probability);
    struckSilently += strikes ? 1 : 0;
    return strikes;
  }

  /** How many faults there were. */
  long faults() {
    return struck;
  }

  /** How many of them nobody was told of. */
  long silentFaults() {
    return struckSilently;
  }

  @Override
  public void write(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    int total = (int) (header.byteSize() + body.byteSize());
    if (fullWrites == 0 && strikes(faults.full)) {
      fullWrites = 1 + random.nextInt(FULL_WRITES_MAX);
    }
    if (fullWrites > 0) {
      fullWrites--;
      throw new FullException();
    }
    if (strikesSilently(faults.lost)) {
      return;
    }
    if (strikes(faults.writeError)) {
      put(region, (int) offset, header, body, random.nextInt(total / PAGE) * PAGE);
      throw new IOException("simulated write error");
    }
    if (strikesSilently(faults.torn)) {
      put(region, (int) offset, header, body, random.nextInt(total / PAGE) * PAGE);
      return;
    }
    if (strikesSilently(faults.misdirected) && offset + total + PAGE <= regions[region].length) {
      put(region, (int) offset + PAGE, header, body, total);
      return;
    }
    put(region, (int) offset, header, body, total);
  }

  private void put(int region, int offset, MemorySegment header, MemorySegment body, int bytes) {
    MemorySegment target = MemorySegment.ofArray(regions[region]);
    long ofHeader = Math.min(bytes, header.byteSize());
    MemorySegment.copy(header, 0, target, offset, ofHeader);
    MemorySegment.copy(
        body, 0, target, offset + header.byteSize(), Math.max(0, bytes - header.byteSize()));
  }

  @Override
  public void read(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    if (strikes(faults.readError)) {
      throw new IOException("simulated read error");
    }
    if (strikesSilently(faults.rot)) {
      int total = (int) (header.byteSize() + body.byteSize());
      regions[region][(int) offset + random.nextInt(total)] ^= (byte) (1 << random.nextInt(8));
    }
    MemorySegment source = MemorySegment.ofArray(regions[region]);
    MemorySegment.copy(source, offset, header, 0, header.byteSize());
    MemorySegment.copy(source, offset + header.byteSize(), body, 0, body.byteSize());
  }

  /** Nobody here loses power. */
  @Override
  public void sync() {}

  @Override
  public void close() {}
}

package io.kvtier.daemon.simulation;

import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.ssd.SlotDevice;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.function.Predicate;

/**
 * A device beside clients that write where they should not: now and then they change what was read
 * into a slab, before anybody has looked at it. The device itself is as sound as before.
 */
final class ScribbledDevice implements SlotDevice {
  private final SlotDevice device;
  private final Predicate<MemorySegment> isWritable;
  private final double rate;
  private final SplittableRandom random;

  /**
   * A device over another.
   *
   * @param isWritable whether clients can write there
   * @param rate how often they do, per read
   */
  ScribbledDevice(
      SlotDevice device,
      Predicate<MemorySegment> isWritable,
      double rate,
      SplittableRandom random) {
    this.device = device;
    this.isWritable = isWritable;
    this.rate = rate;
    this.random = random;
  }

  @Override
  public void write(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    device.write(region, offset, header, body);
  }

  @Override
  public void read(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    device.read(region, offset, header, body);
    if (rate > 0 && isWritable.test(body) && random.nextDouble() < rate) {
      long at = random.nextLong(body.byteSize());
      Words.putByte(body, at, Words.getByte(body, at) ^ 0x20);
    }
  }

  @Override
  public void sync() throws IOException {
    device.sync();
  }

  @Override
  public void close() {
    device.close();
  }
}

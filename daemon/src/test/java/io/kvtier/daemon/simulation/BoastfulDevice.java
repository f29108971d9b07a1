package io.kvtier.daemon.simulation;

import io.kvtier.tiers.ssd.SlotDevice;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/** A planted bug: does not tell when the device it stands for is full. */
final class BoastfulDevice implements SlotDevice {
  private final SimulatedDevice device;

  BoastfulDevice(SimulatedDevice device) {
    this.device = device;
  }

  @Override
  public void write(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    try {
      device.write(region, offset, header, body);
    } catch (SimulatedDevice.FullException e) {
      // So much for the bug.
    }
  }

  @Override
  public void read(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    device.read(region, offset, header, body);
  }

  @Override
  public void sync() {
    device.sync();
  }

  @Override
  public void close() {
    device.close();
  }
}

package io.kvtier.tiers.ssd;

import java.io.IOException;
import java.nio.file.Path;

/** A process that writes without end, and says after each write which one it was. */
final class DeviceVictim {
  private DeviceVictim() {}

  public static void main(String[] arguments) throws IOException {
    try (SlotDevice device = open(arguments[0], Path.of(arguments[1]))) {
      for (long step = Long.parseLong(arguments[2]); ; step++) {
        SlotDeviceContract.write(
            device, SlotDeviceContract.regionOf(step), SlotDeviceContract.slotOf(step), step);
        System.out.println(step);
      }
    }
  }

  static SlotDevice open(String kind, Path directory) throws IOException {
    return switch (kind) {
      case "file" ->
          new FileDevice(
              directory,
              SlotDeviceContract.REGIONS,
              SlotDeviceContract.SLOTS * SlotDeviceContract.STRIDE);
      case "rocks" ->
          new RocksDevice(
              directory,
              SlotDeviceContract.REGIONS,
              SlotDeviceContract.SLOTS * SlotDeviceContract.STRIDE,
              64 << 20);
      default -> throw new IllegalArgumentException(kind);
    };
  }
}

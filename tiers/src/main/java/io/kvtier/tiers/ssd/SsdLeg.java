package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Stores and loads blocks, one blocking call each. Bytes go straight between the slab and the
 * device.
 */
public final class SsdLeg implements Leg {
  private static final ThreadLocal<MemorySegment> HEADER =
      ThreadLocal.withInitial(() ->
          Arena.ofAuto().allocate(SlotHeaderDescriptor.HEADER_BYTES, SharedMemory.PAGE_BYTES));

  private final SlotDevice device;

  /** A leg over a device. */
  public SsdLeg(SlotDevice device) {
    this.device = device;
  }

  @Override
  public void run(Transfer transfer) {
    MemorySegment header = HEADER.get();
    try {
      if (transfer.kind == Transfer.Kind.STORE) {
        transfer.status = StoredBlock.seal(transfer, header);
        if (transfer.status == Status.OK) {
          device.write(transfer.ssdRegion, transfer.ssdOffset, header, transfer.slot());
        }
      } else {
        device.read(transfer.ssdRegion, transfer.ssdOffset, header, transfer.slot());
        transfer.status = StoredBlock.check(transfer, header);
      }
    } catch (IOException e) {
      transfer.status = Status.IO_ERROR;
    }
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Words;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Stores and loads blocks. A store first checks that the slot still holds the bytes that were
 * accepted; a load checks that header, key and bytes are those of the block that was asked for.
 * Bytes go straight between the slab and the device.
 */
public final class SsdLeg implements Leg {
  private static final ThreadLocal<MemorySegment> HEADER =
      ThreadLocal.withInitial(() ->
          Arena.ofAuto().allocate(SlotHeaderDescriptor.HEADER_BYTES, SharedMemory.PAGE_BYTES));

  private final SlotDevice device;
  private final long generation;

  /**
   * A leg over a device.
   *
   * @param generation what distinguishes this start of the daemon: slots of an earlier one do not
   *     verify
   */
  public SsdLeg(SlotDevice device, long generation) {
    this.device = device;
    this.generation = generation;
  }

  @Override
  public void run(Transfer transfer) {
    try {
      transfer.status = transfer.kind == Transfer.Kind.STORE ? store(transfer) : load(transfer);
    } catch (IOException e) {
      transfer.status = Status.IO_ERROR;
    }
  }

  private Status store(Transfer transfer) throws IOException {
    if (Checksums.of(transfer.bytes()) != transfer.checksum) {
      return Status.CORRUPT;
    }
    MemorySegment header = HEADER.get();
    header.fill((byte) 0);
    Words.putLong(header, SlotHeaderDescriptor.MAGIC_OFFSET, SlotHeaderDescriptor.MAGIC);
    Words.putInt(header, SlotHeaderDescriptor.VERSION_OFFSET, SlotHeaderDescriptor.VERSION);
    Words.putLong(header, SlotHeaderDescriptor.GENERATION_OFFSET, generation);
    Words.putInt(header, SlotHeaderDescriptor.NAMESPACE_OFFSET, transfer.namespaceId);
    Words.putShort(header, SlotHeaderDescriptor.GROUP_OFFSET, transfer.group);
    Words.putByte(header, SlotHeaderDescriptor.KEY_BYTES_OFFSET, transfer.keyBytes);
    MemorySegment.copy(
        transfer.key,
        0,
        header,
        ValueLayout.JAVA_BYTE,
        SlotHeaderDescriptor.KEY_OFFSET,
        transfer.key.length);
    Words.putInt(header, SlotHeaderDescriptor.LENGTH_OFFSET, transfer.length);
    Words.putInt(header, SlotHeaderDescriptor.CHECKSUM_OFFSET, transfer.checksum);
    Words.putInt(header, SlotHeaderDescriptor.HEADER_CHECKSUM_OFFSET, headerChecksum(header));
    device.write(transfer.ssdRegion, transfer.ssdOffset, header, transfer.slot());
    return Status.OK;
  }

  private Status load(Transfer transfer) throws IOException {
    MemorySegment header = HEADER.get();
    device.read(transfer.ssdRegion, transfer.ssdOffset, header, transfer.slot());
    boolean named =
        Words.getLong(header, SlotHeaderDescriptor.MAGIC_OFFSET) == SlotHeaderDescriptor.MAGIC
            && Words.getInt(header, SlotHeaderDescriptor.VERSION_OFFSET)
                == SlotHeaderDescriptor.VERSION
            && Words.getInt(header, SlotHeaderDescriptor.HEADER_CHECKSUM_OFFSET)
                == headerChecksum(header)
            && Words.getLong(header, SlotHeaderDescriptor.GENERATION_OFFSET) == generation
            && Words.getInt(header, SlotHeaderDescriptor.NAMESPACE_OFFSET) == transfer.namespaceId
            && Words.getShort(header, SlotHeaderDescriptor.GROUP_OFFSET) == transfer.group
            && Words.getByte(header, SlotHeaderDescriptor.KEY_BYTES_OFFSET) == transfer.keyBytes
            && Words.getInt(header, SlotHeaderDescriptor.LENGTH_OFFSET) == transfer.length
            && Words.getInt(header, SlotHeaderDescriptor.CHECKSUM_OFFSET) == transfer.checksum
            && header
                    .asSlice(SlotHeaderDescriptor.KEY_OFFSET, transfer.key.length)
                    .mismatch(MemorySegment.ofArray(transfer.key))
                == -1;
    return named && Checksums.of(transfer.bytes()) == transfer.checksum
        ? Status.OK
        : Status.CORRUPT;
  }

  private static int headerChecksum(MemorySegment header) {
    return Checksums.of(
        header.asSlice(
            SlotHeaderDescriptor.CHECKED_BEGIN,
            SlotHeaderDescriptor.CHECKED_END - SlotHeaderDescriptor.CHECKED_BEGIN));
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Stores and loads blocks, one blocking call each. Bytes go straight between the slab and the
 * device, unless a codec makes them fewer on the way.
 */
public final class SsdLeg implements Leg {
  private static final ThreadLocal<MemorySegment> HEADER =
      ThreadLocal.withInitial(() ->
          Arena.ofAuto().allocate(SlotHeaderDescriptor.HEADER_BYTES, SharedMemory.PAGE_BYTES));

  /** Where blocks are read that did not verify in their slab: one a thread, as large as any. */
  private static final ThreadLocal<MemorySegment> ASIDE =
      ThreadLocal.withInitial(() -> MemorySegment.NULL);

  private final SlotDevice device;
  private final TroubleLog troubles;
  private final @Nullable ThreadLocal<EncodeBuffer> buffers;

  /** A leg over a device that writes blocks as they are. */
  public SsdLeg(SlotDevice device) {
    this(device, BlockCodecs.none());
  }

  /** A leg over a device that writes blocks as a codec makes them. */
  public SsdLeg(SlotDevice device, BlockCodec codec) {
    this(device, codec, TroubleLog.NONE);
  }

  /**
   * The same.
   *
   * @param troubles told of what fails
   */
  public SsdLeg(SlotDevice device, BlockCodec codec, TroubleLog troubles) {
    this.device = device;
    this.troubles = troubles;
    buffers = codec.id() == 0 ? null : ThreadLocal.withInitial(() -> new EncodeBuffer(codec));
  }

  @Override
  public void run(Transfer transfer) {
    MemorySegment header = HEADER.get();
    try {
      if (transfer.kind == Transfer.Kind.STORE) {
        store(transfer, header);
      } else {
        load(transfer, header);
      }
    } catch (IOException e) {
      StoredBlock.failed(transfer, FileErrors.words(e), troubles);
    }
  }

  private void load(Transfer transfer, MemorySegment header) throws IOException {
    device.read(transfer.region, transfer.offset, header, transfer.slot());
    transfer.status = StoredBlock.check(transfer, header);
    if (transfer.status == Status.CORRUPT) {
      MemorySegment aside = aside(transfer.slotBytes);
      device.read(transfer.region, transfer.offset, header, aside);
      transfer.status = StoredBlock.checkAside(transfer, header, aside);
    }
    if (transfer.status == Status.CORRUPT) {
      StoredBlock.tellDamaged(transfer, troubles);
    }
  }

  private static MemorySegment aside(int bytes) {
    MemorySegment aside = ASIDE.get();
    if (aside.byteSize() < bytes) {
      aside = Arena.ofAuto().allocate(bytes, SharedMemory.PAGE_BYTES);
      ASIDE.set(aside);
    }
    return aside.asSlice(0, bytes);
  }

  private void store(Transfer transfer, MemorySegment header) throws IOException {
    MemorySegment body = transfer.slot();
    if (buffers == null) {
      transfer.status = StoredBlock.seal(transfer, header);
    } else {
      EncodeBuffer buffer = buffers.get();
      StoredBlock.Sealed sealed = StoredBlock.seal(transfer, header, buffer);
      transfer.status = sealed == StoredBlock.Sealed.CORRUPT ? Status.CORRUPT : Status.OK;
      body = sealed == StoredBlock.Sealed.ENCODED ? buffer.body() : body;
    }
    if (transfer.status == Status.OK) {
      device.write(transfer.region, transfer.offset, header, body);
    }
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Pool;
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
  /** Buffers of one transfer. */
  private static final class Desk {
    private final MemorySegment header =
        Arena.ofAuto().allocate(SlotHeaderDescriptor.HEADER_BYTES, SharedMemory.PAGE_BYTES);
    private final @Nullable EncodeBuffer encoding;

    /** Holds a block that is read again because it did not verify in its slab. */
    private MemorySegment aside = MemorySegment.NULL;

    Desk(BlockCodec codec) {
      encoding = codec.id() == 0 ? null : new EncodeBuffer(codec);
    }

    MemorySegment aside(int bytes) {
      if (aside.byteSize() < bytes) {
        aside = Arena.ofAuto().allocate(bytes, SharedMemory.PAGE_BYTES);
      }
      return aside.asSlice(0, bytes);
    }
  }

  private final SlotDevice device;
  private final TroubleLog troubles;
  private final Pool<Desk> desks;
  private final Buffers decoding = new Buffers();

  /** A leg over a device that writes blocks as they are. */
  public SsdLeg(SlotDevice device) {
    this(device, BlockCodecs.none());
  }

  /** A leg over a device that writes blocks as a codec makes them. */
  public SsdLeg(SlotDevice device, BlockCodec codec) {
    this(device, codec, TroubleLog.NONE);
  }

  /**
   * A leg over a device that writes blocks as a codec makes them.
   *
   * @param troubles told of failures
   */
  public SsdLeg(SlotDevice device, BlockCodec codec, TroubleLog troubles) {
    this.device = device;
    this.troubles = troubles;
    desks = new Pool<>(() -> new Desk(codec));
  }

  @Override
  public void run(Transfer transfer) {
    Desk desk = desks.take();
    try {
      if (transfer.kind == Transfer.Kind.STORE) {
        store(transfer, desk);
      } else {
        load(transfer, desk);
      }
    } catch (IOException e) {
      StoredBlock.failed(transfer, FileErrors.words(e), troubles);
    } finally {
      desks.give(desk);
    }
  }

  private void load(Transfer transfer, Desk desk) throws IOException {
    device.read(transfer.region, transfer.offset, desk.header, transfer.slot());
    transfer.status = StoredBlock.check(transfer, desk.header, decoding);
    if (transfer.status == Status.CORRUPT) {
      MemorySegment aside = desk.aside(transfer.slotBytes);
      device.read(transfer.region, transfer.offset, desk.header, aside);
      transfer.status = StoredBlock.checkAside(transfer, desk.header, aside, decoding);
    }
    if (transfer.status == Status.CORRUPT) {
      StoredBlock.tellDamaged(transfer, troubles);
    }
  }

  private void store(Transfer transfer, Desk desk) throws IOException {
    MemorySegment header = desk.header;
    MemorySegment body = transfer.slot();
    EncodeBuffer buffer = desk.encoding;
    if (buffer == null) {
      transfer.status = StoredBlock.seal(transfer, header);
    } else {
      StoredBlock.Sealed sealed = StoredBlock.seal(transfer, header, buffer);
      transfer.status = sealed == StoredBlock.Sealed.CORRUPT ? Status.CORRUPT : Status.OK;
      body = sealed == StoredBlock.Sealed.ENCODED ? buffer.body() : body;
    }
    if (transfer.status == Status.OK) {
      device.write(transfer.region, transfer.offset, header, body);
    }
  }
}

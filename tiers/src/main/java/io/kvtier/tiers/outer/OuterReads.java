package io.kvtier.tiers.outer;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Leg;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * Reads blocks from a source into slots, and verifies them. The source gets a buffer, never a slot:
 * a source that writes late does not reach the slot of another block. If the source throws, the
 * read has failed.
 */
final class OuterReads implements Leg {
  private static final long CHECKSUM_MASK = 0xffff_ffffL;

  private final OuterSource source;
  private final Breaker breaker;
  private final TroubleLog troubles;
  private final Buffers buffers = new Buffers();

  OuterReads(OuterSource source, Breaker breaker, TroubleLog troubles) {
    this.source = source;
    this.breaker = breaker;
    this.troubles = troubles;
  }

  @Override
  public void run(Transfer transfer) {
    transfer.annotationBytes = 0;
    MemorySegment buffer = buffers.take(transfer.length);
    breaker.begin();
    try {
      MemorySegment target = buffer.asSlice(0, transfer.length);
      long answer = source.read(BlockName.of(transfer), target);
      breaker.answered();
      transfer.status =
          answer == OuterSource.ABSENT ? Status.MISS : verified(transfer, target, answer);
    } catch (IOException | RuntimeException | LinkageError e) {
      breaker.failed();
      transfer.status = Status.IO_ERROR;
      transfer.cause = String.valueOf(e);
      troubles.tell("a block was not read", transfer.cause);
    }
    buffers.give(buffer);
  }

  /** Verifies the copy in the slot: these are the bytes that readers get. */
  private Status verified(Transfer transfer, MemorySegment read, long answer) {
    MemorySegment bytes = transfer.bytes();
    bytes.copyFrom(read);
    int checksum = Checksums.of(bytes);
    if ((answer & CHECKSUM_MASK) != answer || checksum != (int) answer) {
      troubles.tell(
          "a block was damaged",
          "its checksum is "
              + Long.toHexString(answer)
              + ", the bytes that came have "
              + Integer.toHexString(checksum));
      return Status.CORRUPT;
    }
    transfer.checksum = checksum;
    transfer.parent = 0;
    transfer.depth = 0;
    return Status.OK;
  }
}

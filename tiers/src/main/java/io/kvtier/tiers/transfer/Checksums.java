package io.kvtier.tiers.transfer;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.util.zip.CRC32C;

/** CRC32C (Castagnoli) over memory, and the copy pipeline's leg that makes it. */
public final class Checksums {
  private Checksums() {}

  /** The checksum of a segment's bytes. */
  public static int of(MemorySegment bytes) {
    CRC32C crc = new CRC32C();
    crc.update(bytes.asByteBuffer());
    return (int) crc.getValue();
  }

  /** The leg of {@link Transfer.Kind#CHECKSUM}. */
  public static void run(Transfer transfer) {
    transfer.checksum = of(transfer.bytes());
    transfer.status = Status.OK;
  }
}

package io.kvtier.tiers.transfer;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.BlockCoder;
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
    EncodedGranules rest = transfer.rest;
    if (rest != null && !rest.decode(transfer.bytes())) {
      transfer.status = Status.CORRUPT;
      return;
    }
    transfer.checksum = of(transfer.bytes());
    transfer.status = isSound(transfer) ? Status.OK : Status.CORRUPT;
    if (transfer.status == Status.OK) {
      transfer.measureErrors();
    }
  }

  /** Whether an encoded block that is checked can be decoded. */
  private static boolean isSound(Transfer transfer) {
    BlockEncoding encoding = transfer.encoding;
    if (encoding == null || transfer.length != encoding.encodedBytes()) {
      return true;
    }
    MemorySegment raw = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    return BlockCoder.OF_THIS_MACHINE.decode(encoding, transfer.bytes(), raw) != BlockCoder.NONE;
  }
}

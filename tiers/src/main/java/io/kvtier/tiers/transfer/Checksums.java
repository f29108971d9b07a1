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
    transfer.measureErrors();
    BlockEncoding encoding = transfer.encoding;
    boolean isEncoded = encoding != null && transfer.length == encoding.encodedBytes();
    transfer.status =
        encoding == null || !isEncoded || decodes(encoding, transfer) ? Status.OK : Status.CORRUPT;
  }

  private static boolean decodes(BlockEncoding encoding, Transfer transfer) {
    MemorySegment raw = MemorySegment.ofArray(new byte[(int) encoding.rawBytes()]);
    return BlockCoder.OF_THIS_MACHINE.decode(encoding, transfer.bytes(), raw) != BlockCoder.NONE;
  }
}

package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;

final class EncodedGranulesTest {
  private static final int GRANULES = 9;
  private static final int GRANULE_BYTES = 1024;
  private static final BlockEncoding ENCODING =
      BlockEncoding.of("exact bf16 1024", GRANULES * GRANULE_BYTES);

  private final Random random = new Random(3);

  private byte[] values() {
    ByteBuffer block = ByteBuffer.allocate(GRANULES * GRANULE_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    while (block.hasRemaining()) {
      block.putShort((short) (Float.floatToIntBits((float) random.nextGaussian()) >>> 16));
    }
    return block.array();
  }

  private static byte[] encoded(byte[] block) {
    byte[] encoded = new byte[(int) ENCODING.encodedBytes()];
    assertTrue(
        new GranuleCodec(ENCODING)
            .encode(MemorySegment.ofArray(block), MemorySegment.ofArray(encoded)));
    return encoded;
  }

  private static Transfer checksum(byte[] raw, byte[] encoded, BitSet granules) {
    Transfer transfer = new Transfer(0);
    transfer.slab = MemorySegment.ofArray(raw);
    transfer.length = raw.length;
    transfer.rest = new EncodedGranules(ENCODING, MemorySegment.ofArray(encoded), granules::get);
    Checksums.run(transfer);
    return transfer;
  }

  @Test
  void run_anySetOfGranules_isDecodedToItsPlaces_andTheRestStaysAsItIs() {
    for (int set = 1; set < 1 << GRANULES; set++) {
      byte[] there = values();
      byte[] block = values();
      byte[] expected = there.clone();
      BitSet granules = BitSet.valueOf(new long[] {set});
      granules.stream()
          .forEach(granule ->
              System.arraycopy(
                  block,
                  granule * GRANULE_BYTES,
                  expected,
                  granule * GRANULE_BYTES,
                  GRANULE_BYTES));
      Transfer transfer = checksum(there, encoded(block), granules);
      assertEquals(Status.OK, transfer.status);
      assertArrayEquals(expected, there);
      assertEquals(Checksums.of(MemorySegment.ofArray(expected)), transfer.checksum);
    }
  }

  @Test
  void run_damagedGranule_isCorrupt_ifItIsOneOfThem() {
    for (int damaged = 0; damaged < GRANULES; damaged++) {
      byte[] encoded = encoded(values());
      encoded[damaged * ENCODING.encodedGranuleBytes() + 100] ^= 4;
      BitSet others = new BitSet();
      others.set(0, GRANULES);
      others.clear(damaged);
      assertEquals(Status.OK, checksum(values(), encoded, others).status);
      others.set(damaged);
      assertEquals(Status.CORRUPT, checksum(values(), encoded, others).status);
    }
  }
}

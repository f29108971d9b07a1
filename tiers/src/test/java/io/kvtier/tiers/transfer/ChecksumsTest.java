package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.BlockCoder;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

final class ChecksumsTest {
  private static final BlockEncoding FP8 = BlockEncoding.of("fp8 bf16 1024", 4096);

  @Test
  void run_checkOfABlockThatIsMeasured_addsItsErrors_ifItIsSound() {
    EncodingErrors errors = EncodingErrors.of(FP8, null);
    assertNotNull(errors);
    byte[] encoded = new byte[(int) FP8.encodedBytes()];
    MemorySegment block = MemorySegment.ofArray(encoded);
    MemorySegment zeros = MemorySegment.ofArray(new byte[(int) FP8.rawBytes()]);
    assertTrue(BlockCoder.OF_THIS_MACHINE.encode(FP8, zeros, block) != BlockCoder.NONE);
    encoded[encoded.length - 1] ^= 1;
    assertEquals(Status.CORRUPT, check(block, errors));
    assertEquals(0, errors.means().length);
    encoded[encoded.length - 1] ^= 1;
    assertEquals(Status.OK, check(block, errors));
    assertEquals(1, errors.means().length);
  }

  private static Status check(MemorySegment block, EncodingErrors errors) {
    Transfer transfer = new Transfer(0);
    transfer.slab = block;
    transfer.length = (int) block.byteSize();
    transfer.encoding = FP8;
    transfer.errors = errors;
    Checksums.run(transfer);
    return transfer.status;
  }
}

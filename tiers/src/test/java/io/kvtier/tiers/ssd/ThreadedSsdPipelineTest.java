package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import org.junit.jupiter.api.Test;

final class ThreadedSsdPipelineTest extends SsdPipelineContract {
  @Override
  Pipeline start(SsdEngine.Parts parts) throws IOException {
    return SsdEngine.PREAD.start(parts).pipeline();
  }

  @Test
  void storeAndLoad_closedDevice_isAnError() throws Exception {
    FileDevice device = open();
    try (Pipeline pipeline = start(device)) {
      device.close();
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(Status.IO_ERROR, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }
}

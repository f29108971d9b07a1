package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.IoUring;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

final class UringPipelineTest extends SsdPipelineContract {
  @BeforeAll
  static void needsIoUring() {
    IoUring.Availability probe = IoUring.probe();
    assumeTrue(probe.isUsable(), probe.reason());
  }

  @Override
  Pipeline start(SsdEngine.Parts parts) throws IOException {
    return SsdEngine.IO_URING.start(parts).pipeline();
  }

  /** The ring holds the files: their numbers may be other files' by now. */
  @Test
  void storeAndLoad_closedDevice_goToTheFilesThatWereRegistered() throws Exception {
    FileDevice device = open();
    try (Pipeline pipeline = start(device)) {
      device.close();
      Transfer block = block(0, 0, 0);
      fill(block, 1);
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.STORE));
      assertEquals(Status.OK, run(pipeline, block, Transfer.Kind.LOAD));
    }
  }

  @Test
  void start_closedDevice_isRefused() throws IOException {
    FileDevice device = open();
    device.close();
    IOException error = assertThrows(IOException.class, () -> start(device));
    assertTrue(String.valueOf(error.getMessage()).contains("EBADF"), error::getMessage);
  }
}

package io.kvtier.tiers.ssd;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.protocol.linux.DirectFile;
import io.kvtier.protocol.linux.IoUring;
import io.kvtier.tiers.transfer.Pipeline;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeAll;

/** io_uring where the file system has no direct IO. */
final class BufferedUringPipelineTest extends SsdPipelineContract {
  @BeforeAll
  static void needsIoUring() {
    IoUring.Availability probe = IoUring.probe();
    assumeTrue(probe.isUsable(), probe.reason());
  }

  @Override
  FileDevice open(Path at, int regions, long regionBytes) throws IOException {
    FileDevice device = new FileDevice(at, regions, regionBytes, DirectFile::openBuffered);
    assertFalse(device.isDirect());
    return device;
  }

  @Override
  Pipeline start(SsdEngine.Parts parts) throws IOException {
    return SsdEngine.IO_URING.start(parts).pipeline();
  }
}

package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.daemon.config.KvtierdConfig.SsdConfig;
import io.kvtier.daemon.index.Tenants;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.ssd.SsdEngine;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** Two devices, each in a directory of its own. */
final class SsdTierTest {
  private static final int SLOT_BYTES = 4096;
  private static final long FILE_BYTES = 1 << 20;

  @TempDir private Path folder;

  private final CompletableFuture<Throwable> defect = new CompletableFuture<>();
  private final Semaphore finished = new Semaphore(0);

  private SsdTier open(List<Path> directories) throws IOException {
    int files = directories.size();
    return new SsdTier(
        new SsdConfig(
            files * FILE_BYTES,
            directories,
            FILE_BYTES,
            "lru",
            "all",
            SsdEngine.PREAD,
            BlockCodecs.none(),
            false,
            0,
            0,
            1,
            8),
        Tenants.of(List.of()).regions(List.of(), files, FILE_BYTES),
        SLOT_BYTES,
        finished::release,
        defect::complete);
  }

  private void run(Pipeline pipeline, Transfer transfer) throws InterruptedException {
    assertTrue(pipeline.offer(transfer));
    do {
      assertTrue(finished.tryAcquire(30, TimeUnit.SECONDS), "it never ends");
    } while (pipeline.collect(ended -> assertEquals(transfer, ended)) == 0);
  }

  @Test
  void load_whatNobodyStoredThere_isLoggedWithTheDirectory() throws Exception {
    List<Path> directories = List.of(folder.resolve("first"), folder.resolve("second"));
    Logger logger = (Logger) LoggerFactory.getLogger(SsdTier.class);
    ListAppender<ILoggingEvent> said = new ListAppender<>();
    said.start();
    logger.addAppender(said);
    try (Arena arena = Arena.ofShared();
        SsdTier tier = open(directories)) {
      Transfer load = new Transfer(0);
      load.kind = Transfer.Kind.LOAD;
      load.slab = arena.allocate(SLOT_BYTES, SLOT_BYTES);
      load.slotBytes = SLOT_BYTES;
      load.length = SLOT_BYTES;
      for (Pipeline pipeline : tier.pipelines()) {
        load.status = Status.BUSY;
        run(pipeline, load);
        assertEquals(Status.CORRUPT, load.status);
      }
    } finally {
      logger.detachAppender(said);
    }
    assertEquals(
        directories.stream()
            .map(directory -> "SSD tier in '" + directory + "': a block is damaged")
            .toList(),
        said.list.stream()
            .map(ILoggingEvent::getFormattedMessage)
            .map(line -> line.substring(0, Math.max(0, line.indexOf(": what"))))
            .toList());
    assertFalse(defect.isDone(), defect::toString);
  }
}

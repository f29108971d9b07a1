package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.daemon.config.KvtierdConfig.SsdConfig;
import io.kvtier.daemon.config.KvtierdConfig.SsdPipeline;
import io.kvtier.daemon.config.KvtierdConfig.SsdRates;
import io.kvtier.daemon.config.KvtierdConfig.SsdSpace;
import io.kvtier.daemon.config.KvtierdConfig.SsdWriting;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.ssd.SsdEngine;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;

/** Two devices, each in a directory of its own. */
final class SsdTierTest {
  private static final int SLOT_BYTES = 4096;
  private static final long FILE_BYTES = 1 << 20;
  private static final int FILES = 128;

  @TempDir private Path folder;

  private final CompletableFuture<Throwable> defect = new CompletableFuture<>();
  private final Semaphore finished = new Semaphore(0);

  private SsdTier open(List<Path> directories) throws IOException {
    return open(directories, directories.size(), SsdEngine.PREAD);
  }

  private SsdTier open(List<Path> directories, int files, SsdEngine engine) throws IOException {
    return new SsdTier(
        new SsdConfig(
            new SsdSpace(files * FILE_BYTES, directories, FILE_BYTES),
            "lru",
            "all",
            new SsdWriting(engine, BlockCodecs.none(), false),
            new SsdRates(0, 0),
            new SsdPipeline(1, 8)),
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

  /** A ledger survives the damage of its files; so does the database of the blocks. */
  @ParameterizedTest
  @ValueSource(strings = {"CURRENT", "MANIFEST", ".log", ".sst", ".blob"})
  void open_databaseWithADamagedFile_startsAndSaysWhatIsLost(String kind) throws Exception {
    int blocks = 40;
    Path directory = folder.resolve("ssd");
    List<Path> directories = List.of(directory);
    try (Arena arena = Arena.ofShared();
        SsdTier tier = open(directories, FILES, SsdEngine.ROCKSDB)) {
      Transfer store = new Transfer(0);
      store.slab = arena.allocate(SLOT_BYTES, SLOT_BYTES);
      store.slotBytes = SLOT_BYTES;
      store.length = SLOT_BYTES;
      store.checksum = Checksums.of(store.bytes());
      for (int block = 0; block < blocks; block++) {
        store.kind = Transfer.Kind.STORE;
        store.status = Status.BUSY;
        store.key[0] = (byte) block;
        store.keyBytes = store.key.length;
        store.region = block;
        run(tier.pipelines().getFirst(), store);
        assertEquals(Status.OK, store.status, store.cause);
      }
    }
    // Another start moves what stood in the log to tables and blob files.
    assertEquals(blocks, rowsOf(directories));
    List<Path> files;
    try (Stream<Path> all = Files.list(directory.resolve("blocks"))) {
      files = all.filter(file -> file.getFileName().toString().contains(kind)).toList();
    }
    assertFalse(files.isEmpty(), "there is no such file");
    try (RandomAccessFile file = new RandomAccessFile(files.getFirst().toFile(), "rw")) {
      long middle = file.length() / 2;
      file.seek(middle);
      int was = file.read();
      file.seek(middle);
      file.write(was ^ 0x55);
    }
    Logger logger = (Logger) LoggerFactory.getLogger(SsdTier.class);
    ListAppender<ILoggingEvent> said = new ListAppender<>();
    said.start();
    logger.addAppender(said);
    int left;
    try {
      left = rowsOf(directories);
    } finally {
      logger.detachAppender(said);
    }
    assertTrue(left <= blocks);
    String words = String.valueOf(said.list);
    if (!kind.equals(".log") && !kind.equals(".blob")) {
      // Whoever reads what these two have finds the damage, block by block.
      assertTrue(words.contains("was damaged ("), words);
    }
    if (left < blocks) {
      assertTrue(words.contains((blocks - left) + " of its " + blocks + " blocks are lost"), words);
    }
  }

  /** How many blocks the ledger promises after a start. */
  private int rowsOf(List<Path> directories) throws IOException {
    int[] rows = new int[1];
    try (SsdTier tier = open(directories, FILES, SsdEngine.ROCKSDB)) {
      tier.ledgers().getFirst().forEach((_, _) -> rows[0]++);
    }
    return rows[0];
  }
}

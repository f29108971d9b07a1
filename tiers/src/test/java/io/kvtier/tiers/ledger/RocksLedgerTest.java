package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.testing.FileDamage;
import io.kvtier.tiers.testing.SmallFileSystem;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

final class RocksLedgerTest extends DurableLedgerContract {
  @Override
  String kind() {
    return "rocks";
  }

  @Override
  void damageRow(long place) throws Exception {
    try (Options options = new Options();
        RocksDB database = RocksDB.open(options, directory.resolve("ledger").toString())) {
      byte[] key = ByteBuffer.allocate(9).put((byte) 'r').putLong(place).array();
      byte[] row = database.get(key);
      row[LedgerEntryDescriptor.PARENT_OFFSET] ^= 1;
      database.put(key, row);
    }
  }

  /** A flipped byte in the middle, or a file cut in half, or gone. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "flip .sst",
        "cut .sst",
        "delete .sst",
        "flip MANIFEST",
        "cut MANIFEST",
        "delete MANIFEST",
        "flip CURRENT",
        "delete CURRENT"
      })
  void open_databaseDamaged_isMovedAsideOnceAndSaid(String damage) throws IOException {
    for (int round = 0; round < 2; round++) {
      fill();
      damage(damage.split(" ", 2)[0], damage.split(" ", 2)[1]);
      try (Ledger ledger = open()) {
        assertTrue(ledger.openingReport().contains("was damaged"), ledger.openingReport());
        assertTrue(ledger.openingReport().contains(directory.toString()));
        new LedgerOracle().assertHeldBy(ledger);
      }
      List<String> aside = names(directory).filter(name -> name.contains(".damaged-")).toList();
      assertEquals(1, aside.size(), aside.toString());
      assertTrue(aside.get(0).startsWith("ledger.damaged-"));
    }
  }

  /** Enough for a table file, and a second opening writes it. */
  private void fill() throws IOException {
    SplittableRandom random = new SplittableRandom(1);
    try (Ledger ledger = open()) {
      for (long place = 0; place < 5000; place++) {
        ledger.record(place, LedgerOracle.entry(random));
      }
      ledger.commit(true);
    }
    open().close();
  }

  private void damage(String how, String which) throws IOException {
    Path database = directory.resolve("ledger");
    String name = names(database).filter(file -> file.contains(which)).findFirst().orElseThrow();
    Path file = database.resolve(name);
    FileDamage.damage(how, file);
  }

  @Test
  void open_endOfTheLogCutOff_holdsTheCommitsBefore() throws IOException {
    LedgerOracle expected = new LedgerOracle();
    try (Ledger ledger = open()) {
      LedgerEntry entry = LedgerOracle.entry(new SplittableRandom(1));
      ledger.record(1, entry);
      ledger.commit(false);
      expected.rows.put(1L, entry);
      ledger.record(2, entry);
      ledger.record(3, entry);
      ledger.commit(false);
    }
    Path log =
        directory
            .resolve("ledger")
            .resolve(
                names(directory.resolve("ledger"))
                    .filter(name -> name.endsWith(".log"))
                    .findFirst()
                    .orElseThrow());
    try (RandomAccessFile bytes = new RandomAccessFile(log.toFile(), "rw")) {
      bytes.setLength(bytes.length() - 50);
    }
    try (Ledger ledger = open()) {
      expected.assertHeldBy(ledger);
    }
  }

  @Test
  void commit_diskFull_failsInWordsAndWorksAgainWithSpace() throws Exception {
    try (SmallFileSystem disk = SmallFileSystem.mount(directory, 24 << 20)) {
      Path home = disk.path().resolve("tier");
      SplittableRandom random = new SplittableRandom(1);
      LedgerOracle oracle = new LedgerOracle();
      try (RocksLedger ledger = new RocksLedger(home)) {
        change(ledger, oracle, random);
        ledger.commit(false);
        for (int time = 0; time < 2; time++) {
          int failures = 0;
          for (int i = 0; i < 200; i++) {
            // Each time anew: the ledger gives space back when it is opened again.
            disk.fill();
            change(ledger, oracle, random);
            try {
              ledger.commit(i % 2 == 0);
            } catch (IOException e) {
              String message = String.valueOf(e.getMessage());
              assertTrue(message.contains(home.toString()), message);
              assertTrue(message.contains("No space left on device"), message);
              assertTrue(message.contains("are not committed"), message);
              failures++;
            }
          }
          assertTrue(failures > 100, failures + " failures");
          // 200 times 500 changes would take more: those that are superseded don't pile up.
          long bytes = ledger.memoryBytes();
          assertTrue(bytes < 16 << 20, "takes " + bytes + " bytes of memory");
          disk.free();
          ledger.commit(true);
          oracle.assertHeldBy(ledger);
        }
      }
      try (RocksLedger ledger = new RocksLedger(home)) {
        assertEquals("", ledger.openingReport());
        oracle.assertHeldBy(ledger);
      }
    }
  }

  private static void change(Ledger ledger, LedgerOracle oracle, SplittableRandom random) {
    for (int i = 0; i < 500; i++) {
      long place = random.nextInt(3000);
      if (random.nextInt(4) == 0) {
        ledger.forget(place);
        oracle.rows.remove(place);
      } else {
        LedgerEntry entry = LedgerOracle.entry(random);
        ledger.record(place, entry);
        oracle.rows.put(place, entry);
      }
    }
  }

  @Test
  void open_diskFull_failsInWords() throws Exception {
    try (SmallFileSystem disk = SmallFileSystem.mount(directory, 4 << 20)) {
      disk.fill();
      Path home = disk.path().resolve("tier");
      IOException error = assertThrows(IOException.class, () -> new RocksLedger(home));
      assertTrue(String.valueOf(error.getMessage()).contains(home.toString()));
      disk.free();
      new RocksLedger(home).close();
      assertEquals(List.of(), names(home).filter(name -> name.contains(".damaged-")).toList());
    }
  }

  @Test
  void open_directoryOnReadOnlyDisk_failsInWords() throws Exception {
    try (SmallFileSystem disk = SmallFileSystem.mount(directory, 8 << 20)) {
      Path home = disk.path().resolve("tier");
      new RocksLedger(home).close();
      disk.makeReadOnly();
      IOException error = assertThrows(IOException.class, () -> new RocksLedger(home));
      assertTrue(String.valueOf(error.getMessage()).contains("Read-only file system"));
      assertTrue(String.valueOf(error.getMessage()).contains(home.toString()));
    }
  }

  @Test
  void open_manyTimes_itsLogFilesStayFew() throws IOException {
    for (int i = 0; i < 12; i++) {
      open().close();
    }
    List<String> logs =
        names(directory.resolve("ledger")).filter(name -> name.startsWith("LOG")).toList();
    assertTrue(logs.size() <= 3, logs.toString());
  }

  @Test
  void open_pathIsAFile_isRefused() throws IOException {
    Path file = Files.createFile(directory.resolve("file"));
    IOException error = assertThrows(IOException.class, () -> new RocksLedger(file));
    assertTrue(String.valueOf(error.getMessage()).contains(file.toString()));
  }

  private static Stream<String> names(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(file -> String.valueOf(file.getFileName())).toList().stream();
    }
  }
}

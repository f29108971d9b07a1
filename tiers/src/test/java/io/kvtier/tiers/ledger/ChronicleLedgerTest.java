package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ChronicleLedgerTest extends DurableLedgerContract {
  @Override
  String kind() {
    return "chronicle";
  }

  /** It keeps no annotations. */
  @Override
  LedgerEntry entryAt(long place, SplittableRandom random) {
    LedgerEntry entry = LedgerOracle.entry(random);
    entry.annotate(0);
    return entry;
  }

  @Override
  boolean hasTransactions() {
    return false;
  }

  /** Finds the row by its place, which stands in it behind the entry. */
  @Override
  void damageRow(long place) throws IOException {
    Path file = directory.resolve("host");
    byte[] bytes = Files.readAllBytes(file);
    LedgerEntry entry = new LedgerEntry();
    LedgerRow row = new LedgerRow();
    for (int at = 0; at + row.bytes.length <= bytes.length; at++) {
      System.arraycopy(bytes, at, row.bytes, 0, row.bytes.length);
      if (row.bytes[0] == LedgerEntryDescriptor.VERSION && row.decode(place, entry)) {
        bytes[at + LedgerEntryDescriptor.PARENT_OFFSET] ^= 1;
        Files.write(file, bytes);
        return;
      }
    }
    throw new AssertionError("no row of place " + place);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 100, 1023, 5000, 100_000})
  void record_everyPlaceThereIs_hasRoomAndTakesNoMoreOfTheDisk(int places) throws IOException {
    Path file = directory.resolve("host");
    LedgerEntry entry = new LedgerEntry();
    try (Ledger ledger = new ChronicleLedger(file, places)) {
      long bytes = ledger.bytes();
      SplittableRandom random = new SplittableRandom(places);
      long region = (long) random.nextInt(1000) << 32;
      for (int round = 0; round < 2; round++) {
        for (int place = 0; place < places; place++) {
          ledger.record(region | place, entry);
        }
      }
      int[] rows = {0};
      ledger.forEach((place, found) -> rows[0]++);
      assertEquals(places, rows[0]);
      assertEquals(bytes, ledger.bytes());
    }
  }

  @Test
  void open_otherNumberOfPlaces_isEmptyAndSaysSo() throws IOException {
    Path file = directory.resolve("host");
    try (Ledger ledger = new ChronicleLedger(file, 10)) {
      ledger.record(3, new LedgerEntry());
    }
    try (Ledger ledger = new ChronicleLedger(file, 20)) {
      assertTrue(ledger.openingReport().contains("made for 10 places, not for 20"));
      new LedgerOracle().assertHeldBy(ledger);
    }
  }

  /** As a process leaves it that is killed before the first opening has ended. */
  @Test
  void open_makingWasCutShort_isMadeAnewWithoutAWord() throws IOException {
    Path file = directory.resolve("host");
    LedgerNames names = new LedgerNames();
    names.places = 10;
    names.write(directory.resolve("host.names"), true);
    Files.write(file, new byte[100]);
    for (int round = 0; round < 2; round++) {
      try (Ledger ledger = new ChronicleLedger(file, 10)) {
        assertEquals("", ledger.openingReport());
        ledger.record(3, new LedgerEntry());
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"host", "host.names"})
  void open_fileIsRubbish_isMovedAsideOnceAndSaid(String damaged) throws IOException {
    for (int round = 0; round < 2; round++) {
      try (Ledger ledger = open()) {
        ledger.record(3, new LedgerEntry());
      }
      byte[] bytes = Files.readAllBytes(directory.resolve(damaged));
      new SplittableRandom(round).nextBytes(bytes);
      Files.write(directory.resolve(damaged), bytes);
      try (Ledger ledger = open()) {
        assertTrue(ledger.openingReport().contains("was damaged"), ledger.openingReport());
        new LedgerOracle().assertHeldBy(ledger);
      }
    }
    try (Stream<Path> files = Files.list(directory)) {
      List<String> aside =
          files
              .map(file -> String.valueOf(file.getFileName()))
              .filter(name -> name.contains(".damaged-"))
              .toList();
      assertEquals(1, aside.size(), aside.toString());
    }
  }
}

package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
    try (Ledger ledger = new ChronicleLedger(file, places, 1 << 20)) {
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
    try (Ledger ledger = new ChronicleLedger(file, 10, 1 << 20)) {
      ledger.record(3, new LedgerEntry());
    }
    try (Ledger ledger = new ChronicleLedger(file, 20, 1 << 20)) {
      assertTrue(ledger.openingReport().contains("made for 10 places, not for 20"));
      new LedgerOracle().assertHeldBy(ledger);
    }
  }

  /** Chronicle refuses more than is free before it takes anything. */
  @Test
  void open_moreSpaceThanTheDiskHas_namesTheSettingToLower_andLeavesNoFile() throws IOException {
    long disk = Files.getFileStore(directory).getTotalSpace();
    Path file = directory.resolve("host");
    String annotations =
        String.valueOf(
            assertThrows(IOException.class, () -> new ChronicleLedger(file, 10, 2 * disk))
                .getMessage());
    assertTrue(
        annotations.endsWith("; lower limits.annotation_bytes or choose another host.directory"),
        annotations);
    assertTrue(
        annotations.contains("for annotations in '" + file + ".annotations-" + 2 * disk + "': "),
        annotations);
    assertFalse(Files.exists(directory.resolve("host.annotations-" + 2 * disk)));
    String rows =
        String.valueOf(
            assertThrows(IOException.class, () -> new ChronicleLedger(file, disk / 32, 0))
                .getMessage());
    assertTrue(rows.endsWith("; lower limits.blocks or choose another host.directory"), rows);
    assertFalse(Files.exists(file));
    try (Ledger ledger = new ChronicleLedger(file, 10, 1 << 20)) {
      ledger.record(3, new LedgerEntry());
    }
  }

  private static LedgerEntry annotated(int bytes) {
    LedgerEntry entry = LedgerOracle.entry(new SplittableRandom(bytes));
    entry.annotate(bytes);
    return entry;
  }

  private List<Integer> annotationBytes(long annotationSpace) throws IOException {
    List<Integer> bytes = new ArrayList<>();
    try (Ledger ledger = new ChronicleLedger(directory.resolve("host"), 5000, annotationSpace)) {
      assertEquals("", ledger.openingReport());
      ledger.forEach((place, entry) -> bytes.add(entry.annotationBytes));
      assertEquals(0, ledger.damagedRows());
    }
    return bytes;
  }

  @Test
  void annotations_thatFindNoSpace_areLeftOut_andTheirRowsStand() throws IOException {
    try (Ledger ledger = new ChronicleLedger(directory.resolve("host"), 5000, 1 << 20)) {
      long bytes = ledger.bytes();
      for (int place = 0; place < 5000; place++) {
        ledger.record(place, annotated(LedgerEntry.ANNOTATION_BYTES_MAX));
      }
      assertEquals(bytes, ledger.bytes());
    }
    List<Integer> kept = annotationBytes(1 << 20);
    assertEquals(5000, kept.size());
    long whole = kept.stream().filter(count -> count > 0).count();
    assertTrue(whole > 100 && whole < 1000, whole + " annotations in 1 MiB");
  }

  @Test
  void annotation_ofTheRowBefore_isNotTakenForTheRowsOwn() throws IOException {
    try (Ledger ledger = new ChronicleLedger(directory.resolve("host"), 5000, 1 << 20)) {
      ledger.record(1, annotated(100));
      ledger.record(2, annotated(200));
    }
    // As a kill leaves it between row and annotation.
    try (Ledger ledger = new ChronicleLedger(directory.resolve("host"), 5000, 0)) {
      ledger.record(1, annotated(300));
    }
    assertEquals(List.of(0, 200), annotationBytes(1 << 20).stream().sorted().toList());
  }

  @Test
  void annotationsFile_damagedOrOfAnotherSize_isMadeAnew_andRowsStand() throws IOException {
    try (Ledger ledger = new ChronicleLedger(directory.resolve("host"), 5000, 1 << 20)) {
      ledger.record(1, annotated(100));
    }
    Path file = directory.resolve("host.annotations-" + (1 << 20));
    byte[] bytes = Files.readAllBytes(file);
    new SplittableRandom(1).nextBytes(bytes);
    Files.write(file, bytes);
    assertEquals(List.of(0), annotationBytes(1 << 20));
    assertEquals(List.of(0), annotationBytes(2 << 20));
    assertFalse(Files.exists(file));
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
      try (Ledger ledger = new ChronicleLedger(file, 10, 1 << 20)) {
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

package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class MappedLedgerTest extends LedgerContract {
  private static final int REGIONS = 5;
  private static final long REGION_BYTES = 64 << 10;
  private static final int PAGE = 4096;
  private static final long ANNOTATION_BYTES = 128 << 10;

  /** Regions 0 to 4 have slots of one to five pages. */
  private static final long[] SLOTS = {16, 8, 5, 4, 3};

  private final MemorySegment memory =
      Arena.ofAuto().allocate(MappedLedger.bytesFor(REGIONS, REGION_BYTES, ANNOTATION_BYTES), PAGE);

  @Override
  MappedLedger open() {
    return new MappedLedger(memory, REGIONS, REGION_BYTES, ANNOTATION_BYTES);
  }

  @Override
  boolean hasTransactions() {
    return false;
  }

  @Override
  long place(SplittableRandom random) {
    int region = random.nextInt(REGIONS);
    return (long) region << 32 | random.nextLong(SLOTS[region]) * (region + 1);
  }

  @Override
  LedgerEntry entryAt(long place, SplittableRandom random) {
    LedgerEntry entry = LedgerOracle.entry(random);
    entry.length = (int) (place >>> 32) * PAGE + 1 + random.nextInt(PAGE);
    return entry;
  }

  private static List<Long> places(Ledger ledger) throws IOException {
    List<Long> places = new ArrayList<>();
    ledger.forEach((place, entry) -> places.add(place));
    return places;
  }

  /** Where the row of a region's slot is, found by what must be in it. */
  private long rowOf(long place) {
    for (long at = 0; at < memory.byteSize() - LedgerEntryDescriptor.ROW_BYTES; at += 8) {
      LedgerRow row = new LedgerRow();
      MemorySegment.copy(memory, ValueLayout.JAVA_BYTE, at, row.bytes, 0, row.bytes.length);
      if (row.bytes[0] == LedgerEntryDescriptor.VERSION && row.decode(place, new LedgerEntry())) {
        return at;
      }
    }
    throw new AssertionError("no row of place " + place);
  }

  @Test
  void row_writtenInPart_isSkippedAndCounted() throws IOException {
    MappedLedger ledger = open();
    SplittableRandom random = new SplittableRandom(1);
    ledger.record(2, entryAt(2, random));
    ledger.record(3, entryAt(3, random));
    long at = rowOf(2) + LedgerEntryDescriptor.CHECKSUM_OFFSET;
    Words.putByte(memory, at, Words.getByte(memory, at) ^ 1);
    MappedLedger again = open();
    assertEquals(List.of(3L), places(again));
    assertEquals(1, again.damagedRows());
  }

  /** What stands at place 2, and has no annotation. */
  private LedgerEntry recordedPlain(MappedLedger ledger) {
    LedgerEntry entry = entryAt(2, new SplittableRandom(3));
    entry.annotate(0);
    ledger.record(2, entry);
    return entry;
  }

  @Test
  void row_killedWhileItGetsItsAnnotation_standsWithout() throws IOException {
    MappedLedger ledger = open();
    LedgerEntry entry = recordedPlain(ledger);
    long at = rowOf(2);
    long checksumAt = at + LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET;
    int checksumWithout = Words.getInt(memory, checksumAt);
    entry.annotate(100);
    ledger.record(2, entry);
    assertEquals(List.of(100), annotationBytes(open()));
    Words.putInt(memory, checksumAt, checksumWithout);
    MappedLedger again = open();
    assertEquals(List.of(0), annotationBytes(again));
    assertEquals(0, again.damagedRows());
    // What it lacks it can still get.
    again.record(2, entry);
    assertEquals(List.of(100), annotationBytes(open()));
  }

  @Test
  void row_getsItsAnnotation_changesInItsFirstWordAndItsChecksumAlone() throws IOException {
    MappedLedger ledger = open();
    LedgerEntry entry = recordedPlain(ledger);
    long at = rowOf(2);
    byte[] before =
        memory.asSlice(at, LedgerEntryDescriptor.ROW_BYTES).toArray(ValueLayout.JAVA_BYTE);
    entry.annotate(100);
    ledger.record(2, entry);
    byte[] after =
        memory.asSlice(at, LedgerEntryDescriptor.ROW_BYTES).toArray(ValueLayout.JAVA_BYTE);
    assertEquals(0, at % Long.BYTES);
    assertArrayEquals(
        Arrays.copyOfRange(before, Long.BYTES, LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET),
        Arrays.copyOfRange(after, Long.BYTES, LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET));
  }

  @Test
  void namespaces_killedWhileTheyAreWritten_areTheOnesBefore() throws IOException {
    MappedLedger ledger = open();
    ledger.recordNamespace(1, new byte[16], "first");
    ledger.commit(false);
    ledger.recordNamespace(1, new byte[16], "second");
    ledger.commit(false);
    // The newer copy is the first one again after two commits more; damage what the last wrote.
    Words.putByte(memory, 20, Words.getByte(memory, 20) ^ 1);
    List<String> texts = new ArrayList<>();
    open().forEachNamespace((id, fingerprint, text) -> texts.add(text));
    assertEquals(List.of("first"), texts);
  }

  @Test
  void region_givenToAnotherSize_hasRowsOfThatSize() throws IOException {
    MappedLedger ledger = open();
    LedgerEntry entry = new LedgerEntry();
    entry.length = PAGE;
    ledger.record(7, entry);
    ledger.forget(7);
    entry.length = 3 * PAGE;
    ledger.record(6, entry);
    ledger.record(12, entry);
    ledger.forget(7);
    assertEquals(List.of(6L, 12L), places(open()));
  }

  @Test
  void place_outsideOfTheTier_isRefused() {
    MappedLedger ledger = open();
    LedgerEntry entry = new LedgerEntry();
    assertThrows(IllegalArgumentException.class, () -> ledger.record((long) REGIONS << 32, entry));
    assertThrows(IllegalArgumentException.class, () -> ledger.forget(REGION_BYTES / PAGE));
  }

  @Test
  void memory_tooSmall_isRefused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> new MappedLedger(memory, REGIONS + 1_000_000, REGION_BYTES, ANNOTATION_BYTES));
  }

  private static List<Integer> annotationBytes(Ledger ledger) throws IOException {
    List<Integer> lengths = new ArrayList<>();
    ledger.forEach((place, entry) -> lengths.add(entry.annotationBytes));
    return lengths;
  }

  @Test
  void annotations_moreThanThereIsRoomFor_areLeftOutAndTheRowsStay() throws IOException {
    MemorySegment little =
        Arena.ofAuto().allocate(MappedLedger.bytesFor(REGIONS, REGION_BYTES, 4 * PAGE), PAGE);
    MappedLedger ledger = new MappedLedger(little, REGIONS, REGION_BYTES, 4 * PAGE);
    LedgerEntry entry = new LedgerEntry();
    entry.length = PAGE;
    entry.annotate(LedgerEntry.ANNOTATION_BYTES_MAX);
    for (int place = 0; place < 9; place++) {
      ledger.record(place, entry);
    }
    // 35 cells of 60 bytes each, of 256.
    int whole = LedgerEntry.ANNOTATION_BYTES_MAX;
    List<Integer> kept = List.of(whole, whole, whole, whole, whole, whole, whole, 0, 0);
    assertEquals(kept, annotationBytes(ledger));
    MappedLedger again = new MappedLedger(little, REGIONS, REGION_BYTES, 4 * PAGE);
    assertEquals(kept, annotationBytes(again));
    again.forget(2);
    again.record(8, entry);
    kept = List.of(whole, whole, whole, whole, whole, whole, 0, whole);
    assertEquals(kept, annotationBytes(again));
  }

  @Test
  void annotation_noRoomAtAll_rowsAreAsTheyEverWere() throws IOException {
    MemorySegment plain = Arena.ofAuto().allocate(MappedLedger.bytesFor(REGIONS, REGION_BYTES, 0));
    MappedLedger ledger = new MappedLedger(plain, REGIONS, REGION_BYTES, 0);
    LedgerEntry entry = new LedgerEntry();
    entry.length = PAGE;
    entry.annotate(7);
    ledger.record(1, entry);
    assertEquals(List.of(0), annotationBytes(ledger));
  }
}

package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What every ledger does that keeps anything. */
abstract class LedgerContract {
  private static final int PLACES = 40;

  /** Opens the one ledger of this test: a new one at first, then with what it holds. */
  abstract Ledger open() throws IOException;

  /** Whether a change is nothing until it is committed; else each counts at once. */
  boolean hasTransactions() {
    return true;
  }

  @Test
  void open_new_isEmpty() throws IOException {
    try (Ledger ledger = open()) {
      new LedgerOracle().assertHeldBy(ledger);
      assertEquals("", ledger.openingReport());
      assertEquals(0, ledger.damagedRows());
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4})
  void randomChanges_reopenedNowAndThen_holdsWhatWasCommitted(long seed) throws IOException {
    SplittableRandom random = new SplittableRandom(seed);
    LedgerOracle committed = new LedgerOracle();
    LedgerOracle current = new LedgerOracle();
    Ledger ledger = open();
    try {
      for (int step = 0; step < 1000; step++) {
        int what = random.nextInt(1000);
        if (what < 600) {
          long place = place(random);
          LedgerEntry entry = entryAt(place, random);
          ledger.record(place, entry);
          current.rows.put(place, entry);
        } else if (what < 800) {
          long place = place(random);
          ledger.forget(place);
          current.rows.remove(place);
        } else if (what < 850) {
          int id = random.nextInt(5);
          String text = "name=m\u00fcdel" + random.nextInt() + "x".repeat(random.nextInt(3000));
          ledger.recordNamespace(id, LedgerOracle.fingerprint(id), text);
          current.namespaces.put(id, text);
        } else if (what < 870) {
          int id = random.nextInt(5);
          ledger.forgetNamespace(id);
          current.namespaces.remove(id);
        } else if (what < 880) {
          current.layout = "slots " + random.nextInt();
          ledger.setLayout(current.layout);
          assertEquals(current.layout, ledger.layout());
        } else if (what < 885) {
          ledger.clear();
          current.rows.clear();
          current.namespaces.clear();
        } else if (what < 960) {
          ledger.commit(random.nextInt(4) == 0);
          committed = current.copy();
        } else if (what < 980) {
          ledger.commit(false);
          committed = current.copy();
          current.assertHeldBy(ledger);
        } else {
          if (!hasTransactions()) {
            ledger.commit(false);
            committed = current.copy();
          }
          ledger.close();
          ledger = open();
          current = committed.copy();
          current.assertHeldBy(ledger);
        }
      }
      assertEquals(0, ledger.damagedRows());
    } catch (AssertionError e) {
      throw new AssertionError("seed " + seed, e);
    } finally {
      ledger.close();
    }
  }

  /** What may stand at a place. */
  LedgerEntry entryAt(long place, SplittableRandom random) {
    return LedgerOracle.entry(random);
  }

  long place(SplittableRandom random) {
    return ((long) random.nextInt(-1, 4) << 32) | random.nextInt(PLACES);
  }

  @Test
  void clear_dropsRowsAndNamespaces_keepsTheLayout() throws IOException {
    try (Ledger ledger = open()) {
      ledger.setLayout("2 regions");
      ledger.record(7, new LedgerEntry());
      ledger.recordNamespace(1, LedgerOracle.fingerprint(1), "one");
      ledger.commit(true);
      ledger.record(8, new LedgerEntry());
      ledger.clear();
      ledger.record(9, new LedgerEntry());
      ledger.commit(true);
    }
    LedgerOracle expected = new LedgerOracle();
    expected.layout = "2 regions";
    expected.rows.put(9L, new LedgerEntry());
    try (Ledger ledger = open()) {
      expected.assertHeldBy(ledger);
    }
  }

  @Test
  void forEach_changesNotCommitted_isRefused() throws IOException {
    assumeTrue(hasTransactions(), "each change counts at once");
    try (Ledger ledger = open()) {
      ledger.record(7, new LedgerEntry());
      IllegalStateException error =
          assertThrows(IllegalStateException.class, () -> ledger.forEach((place, entry) -> {}));
      assertTrue(String.valueOf(error.getMessage()).contains("commit first"));
      assertThrows(
          IllegalStateException.class, () -> ledger.forEachNamespace((id, print, text) -> {}));
    }
  }

  @Test
  void record_keyTooLong_isRefused() throws IOException {
    LedgerEntry entry = new LedgerEntry();
    entry.keyBytes = LedgerEntry.KEY_BYTES_MAX + 1;
    try (Ledger ledger = open()) {
      assertThrows(IllegalArgumentException.class, () -> ledger.record(7, entry));
    }
  }

  @Test
  void recordNamespace_fingerprintTooShort_isRefused() throws IOException {
    try (Ledger ledger = open()) {
      assertThrows(
          IllegalArgumentException.class, () -> ledger.recordNamespace(1, new byte[15], "short"));
    }
  }
}

package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.testing.ChildJvm;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The contract of ledgers that are kept in a directory. */
abstract class DurableLedgerContract extends LedgerContract {
  @TempDir Path directory;

  /** The name by which {@link LedgerVictim} knows it. */
  abstract String kind();

  /** Changes one byte of the row at a place, below the ledger. */
  abstract void damageRow(long place) throws Exception;

  @Override
  Ledger open() throws IOException {
    return LedgerVictim.open(kind(), directory);
  }

  @Test
  void open_twice_isRefusedUntilClosed() throws IOException {
    try (Ledger first = open()) {
      IOException error = assertThrows(IOException.class, this::open);
      assertTrue(String.valueOf(error.getMessage()).contains("in use by another daemon"));
      assertTrue(String.valueOf(error.getMessage()).contains(directory.toString()));
      first.record(1, new LedgerEntry());
      first.commit(false);
    }
    open().close();
  }

  @Test
  void forEach_damagedRow_isSkippedAndCounted() throws Exception {
    SplittableRandom random = new SplittableRandom(1);
    LedgerOracle expected = new LedgerOracle();
    try (Ledger ledger = open()) {
      for (long place = 0; place < 20; place++) {
        LedgerEntry entry = entryAt(0, random);
        ledger.record(place, entry);
        expected.rows.put(place, entry);
      }
      ledger.commit(true);
    }
    damageRow(7);
    damageRow(13);
    expected.rows.remove(7L);
    expected.rows.remove(13L);
    try (Ledger ledger = open()) {
      assertEquals("", ledger.openingReport());
      expected.assertHeldBy(ledger);
      assertEquals(2, ledger.damagedRows());
      LedgerEntry entry = entryAt(0, random);
      ledger.record(7, entry);
      ledger.commit(false);
      expected.rows.put(7L, entry);
      expected.assertHeldBy(ledger);
    }
  }

  @Test
  void kill_inTheMiddleOfCommits_leavesWhatWasCommitted() throws Exception {
    SplittableRandom random = new SplittableRandom();
    long next = 1;
    for (int run = 0; run < 4; run++) {
      long last =
          ChildJvm.killAfterLines(
              LedgerVictim.class,
              1 + random.nextInt(400),
              kind(),
              directory.toString(),
              String.valueOf(next));
      Map<Long, Long> generations = new HashMap<>();
      try (Ledger ledger = open()) {
        assertEquals("", ledger.openingReport());
        int[] without = {0};
        ledger.forEach((place, entry) -> {
          generations.put(place, entry.generation);
          if (!LedgerVictim.isAnnotated(entry)) {
            assertEquals(0, entry.annotationBytes, "another row's annotation");
            without[0]++;
          }
        });
        // The row that was being written can lack it.
        assertTrue(without[0] <= (hasTransactions() ? 0 : 1), without[0] + " without annotation");
        assertEquals(0, ledger.damagedRows());
      }
      if (hasTransactions()) {
        // All of one commit, and that one not before the last that was told.
        long held = generations.values().iterator().next();
        assertTrue(held == last || held == last + 1, held + " after " + last);
        Map<Long, Long> expected = new HashMap<>();
        for (long place = 0; place < LedgerVictim.PLACES; place++) {
          if (place % 7 != held % 7) {
            expected.put(place, held);
          }
        }
        assertEquals(expected, generations);
      } else {
        for (long place = 0; place < LedgerVictim.PLACES; place++) {
          Long held = generations.get(place);
          if (held == null) {
            assertTrue(place % 7 == last % 7 || place % 7 == (last + 1) % 7, "place " + place);
          } else {
            assertTrue(held == last || held == last + 1, held + " after " + last);
          }
        }
      }
      next = last + 2;
    }
  }
}

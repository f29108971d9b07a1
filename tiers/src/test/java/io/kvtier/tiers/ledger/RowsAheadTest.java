package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RowsAheadTest {
  private Ledger ledger = new NoLedger();

  @BeforeEach
  void open(@TempDir Path directory) throws IOException {
    ledger = new RocksLedger(directory);
  }

  @AfterEach
  void close() {
    ledger.close();
  }

  private void fill(int rows) throws IOException {
    LedgerEntry entry = new LedgerEntry();
    for (int i = 0; i < rows; i++) {
      entry.keyBytes = 16;
      entry.key[0] = (byte) i;
      entry.generation = 3L * i;
      ledger.record(i, entry);
    }
    ledger.commit(false);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 1023, 1024, 1025, 20_000})
  void forEach_anyNumberOfRows_sameAsTheLedger(int rows) throws IOException {
    fill(rows);
    List<String> expected = new ArrayList<>();
    ledger.forEach((place, entry) -> expected.add(place + " " + entry));
    List<String> seen = new ArrayList<>();
    RowsAhead.forEach(ledger, (place, entry) -> seen.add(place + " " + entry));
    assertEquals(expected, seen);
    assertEquals(rows, seen.size());
  }

  @Test
  void forEach_visitorFails_endsAtOnce() throws IOException {
    fill(20_000);
    RuntimeException failure = new IllegalStateException("enough");
    assertSame(
        failure,
        assertThrows(
            IllegalStateException.class,
            () ->
                RowsAhead.forEach(
                    ledger,
                    (place, entry) -> {
                      throw failure;
                    })));
    ledger.forget(1);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void forEach_ledgerFails_isToldAfterTheRowsBefore(boolean isDefect) {
    Ledger failing = failing(isDefect);
    List<Long> seen = new ArrayList<>();
    Exception thrown =
        assertThrows(
            Exception.class, () -> RowsAhead.forEach(failing, (place, entry) -> seen.add(place)));
    assertEquals(isDefect ? IllegalStateException.class : IOException.class, thrown.getClass());
    assertEquals("as told", thrown.getMessage());
    assertEquals(2048, seen.size());
  }

  /** Its scan fails after two batches and a half. */
  private Ledger failing(boolean isDefect) {
    return (Ledger)
        Proxy.newProxyInstance(
            getClass().getClassLoader(),
            new Class<?>[] {Ledger.class},
            (proxy, method, arguments) -> {
              Ledger.EntryVisitor visitor = (Ledger.EntryVisitor) arguments[0];
              LedgerEntry entry = new LedgerEntry();
              for (int i = 0; i < 2500; i++) {
                visitor.visit(i, entry);
              }
              throw isDefect ? new IllegalStateException("as told") : new IOException("as told");
            });
  }
}

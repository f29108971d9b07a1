package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.RocksLedger;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The simulation's ledger keeps and loses the rows that the ledger of an SSD keeps and loses. */
final class MemoryLedgerTest {
  private static final int PLACES = 40;

  @TempDir private Path directory;
  private final MemoryLedger.Medium medium = new MemoryLedger.Medium();

  private static String held(Ledger ledger) throws IOException {
    TreeMap<Object, String> all = new TreeMap<>();
    ledger.forEach((place, entry) -> all.put("row " + place, entry.toString()));
    ledger.forEachNamespace(
        (id, print, text) -> all.put("namespace " + id, ByteBuffer.wrap(print).getInt(0) + text));
    return ledger.layout() + all;
  }

  private static Consumer<Ledger> change(SplittableRandom random) {
    long place = random.nextInt(PLACES);
    int id = random.nextInt(4);
    String text = "text " + random.nextInt();
    return switch (random.nextInt(12)) {
      case 0 -> ledger -> ledger.forgetNamespace(id);
      case 1 -> ledger -> ledger.setLayout(text);
      case 2 -> random.nextInt(8) > 0 ? _ -> {} : Ledger::clear;
      case 3, 4 ->
          ledger -> ledger.recordNamespace(id, ByteBuffer.allocate(16).putInt(id).array(), text);
      case 5, 6, 7 -> ledger -> ledger.forget(place);
      default -> {
        LedgerEntry entry = new LedgerEntry();
        entry.keyBytes = 1 + random.nextInt(LedgerEntry.KEY_BYTES_MAX);
        entry.key[0] = (byte) random.nextInt();
        entry.generation = random.nextLong();
        entry.length = random.nextInt(1 << 20);
        entry.annotate(random.nextInt(100));
        yield ledger -> ledger.record(place, entry);
      }
    };
  }

  @Test
  void randomChanges_committedAndNot_areHeldAsByTheLedgerOfAnSsd() throws IOException {
    SplittableRandom random = new SplittableRandom(7);
    Ledger real = new RocksLedger(directory);
    Ledger simulated = new MemoryLedger(medium);
    for (int step = 0; step < 2000; step++) {
      Consumer<Ledger> change = change(random);
      change.accept(real);
      change.accept(simulated);
      int what = random.nextInt(100);
      if (what < 10) {
        real.commit(false);
        simulated.commit(false);
        assertEquals(held(real), held(simulated), "step " + step);
      } else if (what < 12) {
        // Changes that were not committed are lost.
        real.close();
        simulated.close();
        real = new RocksLedger(directory);
        simulated = new MemoryLedger(medium);
        assertEquals(held(real), held(simulated), "step " + step);
      }
    }
    real.close();
    simulated.close();
  }
}

package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;

/** A process that commits without end, and says after each commit which one it was. */
final class LedgerVictim {
  static final int PLACES = 300;

  private LedgerVictim() {}

  public static void main(String[] arguments) throws IOException {
    Path directory = Path.of(arguments[1]);
    try (Ledger ledger = open(arguments[0], directory)) {
      LedgerEntry entry = new LedgerEntry();
      for (long round = Long.parseLong(arguments[2]); ; round++) {
        for (int place = 0; place < PLACES; place++) {
          entry.generation = round;
          entry.keyBytes = 8;
          annotate(entry);
          // Every seventh is forgotten and comes back.
          if (place % 7 == round % 7) {
            ledger.forget(place);
          } else {
            ledger.record(place, entry);
          }
        }
        ledger.commit(round % 16 == 0);
        System.out.println(round);
      }
    }
  }

  /** Half of the entries have an annotation, which says of which round it is. */
  private static void annotate(LedgerEntry entry) {
    entry.annotate(entry.generation % 2 == 0 ? 0 : 100);
    Arrays.fill(entry.annotation, (byte) entry.generation);
  }

  /** Whether an entry has its own annotation. */
  static boolean isAnnotated(LedgerEntry entry) {
    LedgerEntry expected = new LedgerEntry();
    expected.generation = entry.generation;
    annotate(expected);
    return Arrays.equals(
        entry.annotation,
        0,
        entry.annotationBytes,
        expected.annotation,
        0,
        expected.annotationBytes);
  }

  static Ledger open(String kind, Path directory) throws IOException {
    return switch (kind) {
      case "rocks" -> new RocksLedger(directory);
      case "chronicle" -> new ChronicleLedger(directory.resolve("host"), PLACES, 4 << 20);
      default -> throw new IllegalArgumentException(kind);
    };
  }
}

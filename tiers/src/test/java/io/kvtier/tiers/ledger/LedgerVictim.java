package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.file.Path;

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

  static Ledger open(String kind, Path directory) throws IOException {
    return switch (kind) {
      case "rocks" -> new RocksLedger(directory);
      case "chronicle" -> new ChronicleLedger(directory.resolve("host"), PLACES);
      default -> throw new IllegalArgumentException(kind);
    };
  }
}

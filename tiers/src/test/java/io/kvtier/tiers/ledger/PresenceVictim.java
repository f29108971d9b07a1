package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A process that notes keys without end, and says after some of them how many it has noted. */
final class PresenceVictim {
  static final int STEP = 500;

  private PresenceVictim() {}

  public static void main(String[] arguments) throws IOException {
    PresenceLedger ledger =
        new PresenceLedger(
            Path.of(arguments[0]),
            PresenceLedger.BYTES_MIN,
            TimeUnit.DAYS.toMillis(1),
            thrown -> System.exit(1));
    ledger.start(0, (high, low) -> {});
    for (long number = Long.parseLong(arguments[1]); ; number++) {
      ledger.present(PresenceLedgerTest.high(number), PresenceLedgerTest.low(number));
      if (number % STEP == 0) {
        CompletableFuture<Boolean> answer = new CompletableFuture<>();
        if (ledger.find(
                PresenceLedgerTest.high(number), PresenceLedgerTest.low(number), answer::complete)
            && answer.join()) {
          System.out.println(number);
        }
      }
    }
  }
}

package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;

final class RocksLedgerTest extends LedgerContract {
  @TempDir Path directory;

  @Override
  Ledger open() throws IOException {
    return new RocksLedger(directory);
  }
}

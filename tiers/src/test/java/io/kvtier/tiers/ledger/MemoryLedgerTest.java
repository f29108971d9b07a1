package io.kvtier.tiers.ledger;

final class MemoryLedgerTest extends LedgerContract {
  private final MemoryLedger.Medium medium = new MemoryLedger.Medium();

  @Override
  Ledger open() {
    return new MemoryLedger(medium);
  }
}

package io.kvtier.daemon.simulation;

import io.kvtier.daemon.index.MemoryLedger;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import java.io.IOException;
import java.util.SplittableRandom;

/**
 * A ledger whose commits fail, as they do on a full disk: now and then one, and now and then
 * several in a row. The changes stay uncommitted until a later commit succeeds.
 */
final class FailingLedger implements Ledger {
  private final MemoryLedger ledger;
  private final SplittableRandom random;
  private static final int FULL_COMMITS_MAX = 16;

  private final double rate;
  private final boolean isBoastful;
  private int fullCommits;

  /**
   * A ledger over another.
   *
   * @param rate how often a commit fails, or begins a series of failures
   * @param isBoastful a planted bug: a commit that fails counts as one that succeeded
   */
  FailingLedger(MemoryLedger ledger, double rate, boolean isBoastful, SplittableRandom random) {
    this.ledger = ledger;
    this.rate = rate;
    this.isBoastful = isBoastful;
    this.random = random;
  }

  @Override
  public void commit(boolean sync) throws IOException {
    if (fullCommits == 0 && rate > 0 && random.nextDouble() < rate) {
      fullCommits = random.nextBoolean() ? 1 : 1 + random.nextInt(FULL_COMMITS_MAX);
    }
    if (fullCommits > 0) {
      fullCommits--;
      if (isBoastful) {
        ledger.close();
        return;
      }
      throw new IOException("simulated commit error");
    }
    ledger.commit(sync);
  }

  @Override
  public void record(long place, LedgerEntry entry) {
    ledger.record(place, entry);
  }

  @Override
  public void forget(long place) {
    ledger.forget(place);
  }

  @Override
  public void recordNamespace(int id, byte[] fingerprint, String text) {
    ledger.recordNamespace(id, fingerprint, text);
  }

  @Override
  public void forgetNamespace(int id) {
    ledger.forgetNamespace(id);
  }

  @Override
  public String layout() {
    return ledger.layout();
  }

  @Override
  public void setLayout(String layout) {
    ledger.setLayout(layout);
  }

  @Override
  public void clear() {
    ledger.clear();
  }

  @Override
  public void forEach(EntryVisitor visitor) throws IOException {
    ledger.forEach(visitor);
  }

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) throws IOException {
    ledger.forEachNamespace(visitor);
  }

  @Override
  public long bytes() {
    return ledger.bytes();
  }

  @Override
  public long damagedRows() {
    return ledger.damagedRows();
  }

  @Override
  public String openingReport() {
    return ledger.openingReport();
  }

  @Override
  public void close() {
    ledger.close();
  }
}

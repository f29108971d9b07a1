package io.kvtier.daemon.simulation;

import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import java.io.IOException;
import java.util.SplittableRandom;

/** A ledger whose commits fail now and then, as they do on a full disk. */
final class FailingLedger implements Ledger {
  private final Ledger ledger;
  private final SplittableRandom random;
  private final double rate;

  FailingLedger(Ledger ledger, double rate, SplittableRandom random) {
    this.ledger = ledger;
    this.rate = rate;
    this.random = random;
  }

  @Override
  public void commit(boolean sync) throws IOException {
    if (rate > 0 && random.nextDouble() < rate) {
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

package io.kvtier.tiers.ledger;

/** The ledger of a tier that need not survive its process: keeps nothing, costs nothing. */
public final class NoLedger implements Ledger {
  private String layout = "";

  @Override
  public void record(long place, LedgerEntry entry) {}

  @Override
  public void forget(long place) {}

  @Override
  public void recordNamespace(int id, byte[] fingerprint, String text) {}

  @Override
  public void forgetNamespace(int id) {}

  @Override
  public String layout() {
    return layout;
  }

  @Override
  public void setLayout(String layout) {
    this.layout = layout;
  }

  @Override
  public void clear() {}

  @Override
  public void commit(boolean sync) {}

  @Override
  public void forEach(EntryVisitor visitor) {}

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) {}

  @Override
  public long bytes() {
    return 0;
  }

  @Override
  public long damagedRows() {
    return 0;
  }

  @Override
  public String openingReport() {
    return "";
  }

  @Override
  public void close() {}
}

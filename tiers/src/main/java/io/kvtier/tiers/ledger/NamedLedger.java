package io.kvtier.tiers.ledger;

/** A ledger that keeps what stands beside its rows in {@link LedgerNames}. For one thread. */
abstract class NamedLedger implements Ledger {
  LedgerNames names = new LedgerNames();

  /** Whether the names differ from those that were written last. */
  boolean namesChanged;

  long damagedRows;
  String openingReport = "";

  @Override
  public void recordNamespace(int id, byte[] fingerprint, String text) {
    Ledger.requireFingerprint(fingerprint);
    names.namespaces.put(id, new LedgerNames.Namespace(fingerprint.clone(), text));
    namesChanged = true;
  }

  @Override
  public void forgetNamespace(int id) {
    namesChanged |= names.namespaces.remove(id) != null;
  }

  /** A part of {@link #clear}. */
  void clearNames() {
    names.namespaces.clear();
    namesChanged = true;
  }

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) {
    names.namespaces.forEach(
        (id, namespace) -> visitor.visit(id, namespace.fingerprint.clone(), namespace.text));
  }

  @Override
  public String layout() {
    return names.layout;
  }

  @Override
  public void setLayout(String layout) {
    names.layout = layout;
    namesChanged = true;
  }

  @Override
  public long damagedRows() {
    return damagedRows;
  }

  @Override
  public String openingReport() {
    return openingReport;
  }
}

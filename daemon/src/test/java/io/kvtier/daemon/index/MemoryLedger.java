package io.kvtier.daemon.index;

import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.LedgerEntryDescriptor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A ledger whose medium is a {@link Medium} on the heap: a test or the simulation can open the
 * medium again after a ledger was closed, or left where a crash would have left it.
 */
public final class MemoryLedger implements Ledger {
  private final Medium medium;
  private final List<Runnable> pending = new ArrayList<>();
  private String layout;

  /** The committed rows and namespaces. A medium outlives the ledgers that are opened over it. */
  public static final class Medium {
    private final Map<Long, LedgerEntry> rows = new HashMap<>();
    private final Map<Integer, Namespace> namespaces = new HashMap<>();
    private String layout = "";
  }

  private static final class Namespace {
    private final byte[] fingerprint;
    private final String text;

    private Namespace(byte[] fingerprint, String text) {
      this.fingerprint = fingerprint;
      this.text = text;
    }
  }

  /** Opens a medium, which may be empty. */
  public MemoryLedger(Medium medium) {
    this.medium = medium;
    layout = medium.layout;
  }

  @Override
  public void record(long place, LedgerEntry entry) {
    if (entry.keyBytes < 0 || entry.keyBytes > LedgerEntry.KEY_BYTES_MAX) {
      throw new IllegalArgumentException(
          "a key has 0 to " + LedgerEntry.KEY_BYTES_MAX + " bytes, not " + entry.keyBytes);
    }
    LedgerEntry copy = entry.copy();
    pending.add(() -> medium.rows.put(place, copy));
  }

  @Override
  public void forget(long place) {
    pending.add(() -> medium.rows.remove(place));
  }

  @Override
  public void recordNamespace(int id, byte[] fingerprint, String text) {
    Ledger.requireFingerprint(fingerprint);
    Namespace namespace = new Namespace(fingerprint.clone(), text);
    pending.add(() -> medium.namespaces.put(id, namespace));
  }

  @Override
  public void forgetNamespace(int id) {
    pending.add(() -> medium.namespaces.remove(id));
  }

  @Override
  public String layout() {
    return layout;
  }

  @Override
  public void setLayout(String layout) {
    this.layout = layout;
    pending.add(() -> medium.layout = layout);
  }

  @Override
  public void clear() {
    String kept = layout;
    pending.clear();
    pending.add(() -> {
      medium.rows.clear();
      medium.namespaces.clear();
      medium.layout = kept;
    });
  }

  @Override
  public void commit(boolean sync) {
    pending.forEach(Runnable::run);
    pending.clear();
  }

  @Override
  public void forEach(EntryVisitor visitor) {
    requireCommitted();
    LedgerEntry shown = new LedgerEntry();
    medium.rows.forEach((place, entry) -> {
      shown.set(entry);
      visitor.visit(place, shown);
    });
  }

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) {
    requireCommitted();
    medium.namespaces.forEach(
        (id, namespace) -> visitor.visit(id, namespace.fingerprint.clone(), namespace.text));
  }

  private void requireCommitted() {
    if (!pending.isEmpty()) {
      throw new IllegalStateException(pending.size() + " changes are not committed: commit first");
    }
  }

  @Override
  public long bytes() {
    return (long) medium.rows.size() * LedgerEntryDescriptor.ROW_BYTES;
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
  public void close() {
    pending.clear();
  }
}

package io.kvtier.tiers.ledger;

import java.io.IOException;

/**
 * The durable directory of a tier: which block stands in which slot, one row a place, so that it
 * never holds more rows than the tier has slots. Beside the rows it keeps the namespaces that the
 * rows name, and a text that says how the tier is cut.
 *
 * <p>A ledger may be behind its tier, never the judge of it: who loads a block by a row checks the
 * bytes.
 *
 * <p>Changes count from {@link #commit} on. A process that is killed leaves what was committed. Of
 * the changes since, a ledger with transactions leaves none, or all where it was killed inside the
 * commit; a ledger that writes each row at once may leave any of them, each whole.
 *
 * <p>One thread calls, if not the same one for ever: nothing here is synchronized. An I/O error is
 * an {@link IOException} that names the ledger's place and the cause; everything else that is
 * thrown is misuse.
 */
public interface Ledger extends AutoCloseable {
  /** The width of a namespace's fingerprint. */
  int FINGERPRINT_BYTES = 16;

  /** Is shown the rows of a ledger. */
  @FunctionalInterface
  interface EntryVisitor {
    /**
     * Sees one row.
     *
     * @param entry only for the time of the call: the next row is put in the same object
     */
    void visit(long place, LedgerEntry entry);
  }

  /** Is shown the namespaces of a ledger. */
  @FunctionalInterface
  interface NamespaceVisitor {
    void visit(int id, byte[] fingerprint, String text);
  }

  /**
   * Says what stands at a place from now on, whatever stood there before.
   *
   * @param place opaque here; the tier's own is region &lt;&lt; 32 | slot
   */
  void record(long place, LedgerEntry entry);

  /** Nothing stands at a place from now on. Nothing may have stood there before, either. */
  void forget(long place);

  /**
   * Keeps a namespace, in place of the one that had its id.
   *
   * @param fingerprint {@value #FINGERPRINT_BYTES} bytes
   */
  void recordNamespace(int id, byte[] fingerprint, String text);

  /** Drops a namespace; not the rows that name it. */
  void forgetNamespace(int id);

  /** What {@link #setLayout} was last told; empty in a new ledger. */
  String layout();

  /** Names the tier's geometry: who opens the ledger with another one compares, and clears. */
  void setLayout(String layout);

  /** Drops all rows and all namespaces, and the changes not yet committed; the layout stays. */
  void clear();

  /**
   * Makes all changes since the last commit durable, all or none. After a failure they are still
   * there, and the next commit tries again with them.
   *
   * @param sync against the loss of power, too, and not only against a kill of the process
   */
  void commit(boolean sync) throws IOException;

  /**
   * Shows all rows that verify, in any order; the visitor must not change the ledger.
   *
   * @throws IllegalStateException where there are changes that are not committed
   */
  void forEach(EntryVisitor visitor) throws IOException;

  /**
   * Shows all namespaces, in any order; the visitor must not change the ledger.
   *
   * @throws IllegalStateException where there are changes that are not committed
   */
  void forEachNamespace(NamespaceVisitor visitor) throws IOException;

  /** The size on its medium. */
  long bytes();

  /** How many rows were skipped since the ledger was opened because they did not verify. */
  long damagedRows();

  /** What was out of order when the ledger was opened, in a sentence; empty if nothing was. */
  String openingReport();

  /** Ends the use of the ledger. Changes that were not committed may be lost. */
  @Override
  void close();

  /** Refuses a namespace's fingerprint that is none. */
  static void requireFingerprint(byte[] fingerprint) {
    if (fingerprint.length != FINGERPRINT_BYTES) {
      throw new IllegalArgumentException(
          "a fingerprint has " + FINGERPRINT_BYTES + " bytes, not " + fingerprint.length);
    }
  }
}

package io.kvtier.daemon.index.space;

/** The rows of a tier's ledger, by which a later start finds the tier's copies. */
public interface TierRows {
  /** A copy is in its slot. */
  void added(int block);

  /** A copy leaves its slot. It still has the slot, and its row may never have been added. */
  void removed(int block);
}

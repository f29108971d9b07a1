package io.kvtier.daemon.index.space;

/** The rows of a tier's ledger, by which a later start finds the tier's copies. */
public interface TierRows {
  /** For a tier that does not outlive the daemon, or whose rows a pipeline writes. */
  TierRows NONE =
      new TierRows() {
        @Override
        public void added(int block) {}

        @Override
        public void removed(int block) {}
      };

  /** A copy is in its slot. */
  void added(int block);

  /** A copy leaves its slot. It still has the slot, and its row may never have been added. */
  void removed(int block);
}

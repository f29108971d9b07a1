package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rows of the first tier: written at once, into memory that outlives the process. The texts of
 * namespaces may be in a separate file. If that file can't be written, for example on a full file
 * system, the tier goes on, but a later start does not find the blocks of new namespaces.
 */
public final class FirstRows implements TierRows {
  private static final Logger LOG = LoggerFactory.getLogger(FirstRows.class);
  private static final long RETRY_NS = 1_000_000_000L;

  private final Directory directory;
  private final Namespaces namespaces;
  private final SlotAllocator slots;
  private final Ledger ledger;
  private final LedgerEntry entry = new LedgerEntry();

  /**
   * The recorded texts by the ids of their namespaces. An id may be reused for another namespace.
   */
  private final @Nullable String[] recorded = new String[Namespaces.NAMESPACES_MAX];

  private final LongSupplier clock;
  private long generation;
  private String trouble = "";
  private long retryNs;

  public FirstRows(
      Directory directory,
      Namespaces namespaces,
      SlotAllocator slots,
      Ledger ledger,
      LongSupplier clock) {
    this.clock = clock;
    this.directory = directory;
    this.namespaces = namespaces;
    this.slots = slots;
    this.ledger = ledger;
  }

  /** Sets the highest count of a row so far. */
  public void continueAfter(long lastRow) {
    generation = lastRow;
  }

  @Override
  public void added(int block) {
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    if (!namespace.text().equals(recorded[namespace.id()])) {
      ledger.recordNamespace(
          namespace.id(),
          LedgerLeg.fingerprint(namespace.high(), namespace.low()),
          namespace.text());
      recorded[namespace.id()] = namespace.text();
    }
    entry.namespaceHigh = namespace.high();
    entry.namespaceLow = namespace.low();
    directory.copyKey(block, entry.key);
    entry.keyBytes = directory.keyBytes(block);
    entry.group = directory.group(block);
    entry.length = namespaces.storedBytes(directory, block);
    entry.checksum = directory.checksum(block);
    entry.generation = ++generation;
    entry.parent = directory.parent(block);
    entry.depth = directory.depth(block);
    entry.annotate(directory.annotations().bytes(block));
    directory.annotations().copy(block, entry.annotation);
    ledger.record(placeOf(block), entry);
    commit();
  }

  @Override
  public void removed(int block) {
    ledger.forget(placeOf(block));
    commit();
  }

  /** Why the ledger can't be written; empty while it can. */
  public String trouble() {
    return trouble;
  }

  /** Tries again to write the ledger, when it is time. */
  public void advance() {
    if (!trouble.isEmpty()) {
      commit();
    }
  }

  private void commit() {
    if (!trouble.isEmpty() && clock.getAsLong() - retryNs < 0) {
      return;
    }
    try {
      ledger.commit(false);
      if (!trouble.isEmpty()) {
        LOG.info("the host tier's ledger is written again");
        trouble = "";
      }
    } catch (IOException e) {
      if (trouble.isEmpty()) {
        LOG.warn(
            "the host tier's ledger can't be written: {}. Until it can, the next start does not find"
                + " the blocks of new namespaces in memory",
            FileErrors.withCure(FileErrors.words(e)));
      }
      trouble = FileErrors.withCure(FileErrors.words(e));
      retryNs = clock.getAsLong() + RETRY_NS;
    }
  }

  private long placeOf(int block) {
    int slot = directory.copies().slot(0, block);
    return Transfer.place(slots.regionOf(slot), slots.offsetOf(slot));
  }
}

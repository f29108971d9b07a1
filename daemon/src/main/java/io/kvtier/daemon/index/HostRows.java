package io.kvtier.daemon.index;

import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import org.jspecify.annotations.Nullable;

/** The rows of the host tier: written at once, into memory that outlives the process. */
final class HostRows implements TierLine.Rows {
  private final Directory directory;
  private final Namespaces namespaces;
  private final SlotAllocator slots;
  private final Ledger ledger;
  private final LedgerEntry entry = new LedgerEntry();

  /** The texts by id, which may come to stand for another namespace. */
  private final @Nullable String[] recorded = new String[Namespaces.NAMESPACES_MAX];

  private long generation;

  HostRows(Directory directory, Namespaces namespaces, SlotAllocator slots, Ledger ledger) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.slots = slots;
    this.ledger = ledger;
  }

  /** No row so far had a higher count. */
  void continueAfter(long lastRow) {
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
    entry.length = (int) namespace.blockBytes();
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

  private void commit() {
    try {
      ledger.commit(false);
    } catch (IOException e) {
      throw new IllegalStateException("memory that outlives the process can't be written", e);
    }
  }

  private long placeOf(int block) {
    int slot = directory.slot(TierLine.HOST, block);
    return Transfer.place(slots.regionOf(slot), slots.offsetOf(slot));
  }
}

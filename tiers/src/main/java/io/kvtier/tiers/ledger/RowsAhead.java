package io.kvtier.tiers.ledger;

import io.kvtier.tiers.transfer.Joining;
import java.io.IOException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import org.jspecify.annotations.Nullable;

/**
 * Reads a ledger on a thread of its own, some batches of rows ahead of who takes them: reading and
 * taking a million rows both take a while.
 */
public final class RowsAhead {
  private static final int ROWS = 1024;
  private static final int BATCHES = 8;

  /** Rows on their way; without any it is the last. */
  private static final class Batch {
    private final long[] places = new long[ROWS];
    private final LedgerEntry[] entries = new LedgerEntry[ROWS];
    private int count;
    private @Nullable IOException failure;
    private @Nullable RuntimeException defect;

    Batch() {
      for (int i = 0; i < ROWS; i++) {
        entries[i] = new LedgerEntry();
      }
    }
  }

  /** It went no further: who took the rows has failed. */
  private static final class Abandoned extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  private final Ledger ledger;
  private final BlockingQueue<Batch> full = new ArrayBlockingQueue<>(BATCHES);
  private final BlockingQueue<Batch> empty = new ArrayBlockingQueue<>(BATCHES);
  private volatile boolean abandoned;
  private Batch filling = new Batch();

  private RowsAhead(Ledger ledger) {
    this.ledger = ledger;
    for (int i = 1; i < BATCHES; i++) {
      empty.add(new Batch());
    }
  }

  /** As {@link Ledger#forEach}; nobody may use the ledger meanwhile, the visitor included. */
  public static void forEach(Ledger ledger, Ledger.EntryVisitor visitor) throws IOException {
    RowsAhead rows = new RowsAhead(ledger);
    Thread reader = Thread.ofPlatform().name("kvtier-rows").start(rows::read);
    try {
      rows.take(visitor);
    } finally {
      rows.abandoned = true;
      reader.interrupt();
      Joining.join(reader);
    }
  }

  private void read() {
    try {
      ledger.forEach(this::add);
      if (filling.count > 0) {
        handOn();
      }
    } catch (IOException e) {
      filling.failure = e;
    } catch (Abandoned e) {
      return;
    } catch (RuntimeException e) {
      filling.defect = e;
    }
    filling.count = 0;
    try {
      full.put(filling);
    } catch (InterruptedException e) {
      // Nobody takes it any more.
    }
  }

  private void add(long place, LedgerEntry entry) {
    if (filling.count == ROWS) {
      handOn();
    }
    filling.places[filling.count] = place;
    filling.entries[filling.count++].set(entry);
  }

  private void handOn() {
    try {
      full.put(filling);
      filling = empty.take();
      filling.count = 0;
    } catch (InterruptedException e) {
      throw new Abandoned();
    }
    if (abandoned) {
      throw new Abandoned();
    }
  }

  private void take(Ledger.EntryVisitor visitor) throws IOException {
    try {
      for (Batch batch = next(); batch.count > 0; batch = next()) {
        for (int i = 0; i < batch.count; i++) {
          visitor.visit(batch.places[i], batch.entries[i]);
        }
        empty.put(batch);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while the rows of a ledger were read", e);
    }
  }

  private Batch next() throws InterruptedException, IOException {
    Batch batch = full.take();
    if (batch.failure != null) {
      throw batch.failure;
    }
    if (batch.defect != null) {
      throw batch.defect;
    }
    return batch;
  }
}

package io.kvtier.tiers.ledger;

import io.kvtier.tiers.transfer.Inbox;
import io.kvtier.tiers.transfer.Joining;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Remembers which keys of 128 bits were seen in a shared store, and when, in a database of its own
 * under {@code presence/} that survives the process. A lost note costs one question to the store.
 * So callers never wait, writes are not synced, and notes that do not fit are left out.
 *
 * <p>Callers hand notes and questions to the ledger's thread through a bounded queue, and never
 * touch the database. Every question is answered. If the database fails, the answer is no.
 */
public final class PresenceLedger implements AutoCloseable {
  /** The smallest cap. Logs and buffers take a part of it. */
  public static final long BYTES_MIN = 16L << 20;

  private static final Logger LOG = LoggerFactory.getLogger(PresenceLedger.class);

  private static final int QUEUE_CAPACITY = 1 << 16;

  /** The number of age steps by which the newest keys are found. */
  private static final int AGES = 1024;

  /** Called with a key that is there. */
  @FunctionalInterface
  public interface Visitor {
    void visit(long high, long low);
  }

  /** Called with whether a key is there, on the ledger's thread. */
  @FunctionalInterface
  public interface Answer {
    void found(boolean present);
  }

  /**
   * Refuses a directory whose ledger is open. Takes and makes nothing.
   *
   * @throws IOException if the ledger is open
   */
  public static void requireFree(Path directory) throws IOException {
    LedgerFiles.requireFree(directory, PresenceRows.NAME);
  }

  private sealed interface Task {
    record Note(PresenceRows.Key key, long timeMs) implements Task {}

    record Clear(long timeMs) implements Task {}

    record Question(PresenceRows.Key key, Answer answer) implements Task {}
  }

  private final PresenceRows rows;
  private final long ageMsMax;
  private final Consumer<Throwable> defect;
  private final LongSupplier clockMs;
  private final Inbox<Task> inbox = new Inbox<>(QUEUE_CAPACITY);
  private final LongAdder lost = new LongAdder();
  private final Thread thread;
  private long newestMax;
  private Visitor newest = (high, low) -> {};

  // Only the ledger's thread uses the fields below.
  private final Map<PresenceRows.Key, Long> notes = new LinkedHashMap<>();

  /**
   * Opens the ledger in a directory, or makes both. A damaged one is moved aside and an empty one
   * takes its place: {@link #openingReport} then says so.
   *
   * @param directory may hold other files: all of the ledger's own have names that begin with
   *     {@code presence}
   * @param bytesMax of all files; an entry takes about 30
   * @param ageMsMax older notes are not believed, because other nodes delete objects
   * @param defect told of what the ledger's thread threw, which it never should
   * @throws IOException naming the directory and what is wrong with it
   */
  public PresenceLedger(Path directory, long bytesMax, long ageMsMax, Consumer<Throwable> defect)
      throws IOException {
    this(directory, bytesMax, ageMsMax, defect, System::currentTimeMillis);
  }

  PresenceLedger(
      Path directory,
      long bytesMax,
      long ageMsMax,
      Consumer<Throwable> defect,
      LongSupplier clockMs)
      throws IOException {
    if (bytesMax < BYTES_MIN || ageMsMax <= 0) {
      throw new IllegalArgumentException(
          "a presence ledger of "
              + bytesMax
              + " bytes that believes what is "
              + ageMsMax
              + " ms old: it needs "
              + BYTES_MIN
              + " bytes at least, and some time");
    }
    this.ageMsMax = ageMsMax;
    this.defect = defect;
    this.clockMs = clockMs;
    rows = new PresenceRows(directory, bytesMax, LOG);
    thread = Thread.ofPlatform().daemon().name("kvtier-presence").unstarted(this::work);
  }

  /**
   * Starts the thread, which first visits the newest keys, in any order.
   *
   * @param max the most keys to visit; 0 for none
   * @param visitor on the ledger's thread
   */
  public void start(long max, Visitor visitor) {
    newestMax = max;
    newest = visitor;
    thread.start();
  }

  /** Notes that a key is there, now. From any thread, at once. */
  public void present(long high, long low) {
    note(high, low, clockMs.getAsLong());
  }

  /** Notes that nothing is known of a key. From any thread, at once. */
  public void forget(long high, long low) {
    note(high, low, PresenceRows.NEVER_MS);
  }

  /** Notes that nothing is known of any key. From any thread, at once. */
  public void forgetAll() {
    if (!inbox.offer(new Task.Clear(clockMs.getAsLong()))) {
      lost.increment();
    }
  }

  private void note(long high, long low, long timeMs) {
    if (!inbox.offer(new Task.Note(new PresenceRows.Key(high, low), timeMs))) {
      lost.increment();
    }
  }

  /**
   * Asks whether a key was noted to be there, and not too long ago. From any thread, at once.
   *
   * @param answer given on the ledger's thread
   * @return false if there will be no answer: too many questions wait, or the ledger is closed
   */
  public boolean find(long high, long low, Answer answer) {
    return !inbox.hasEnded()
        && inbox.offer(new Task.Question(new PresenceRows.Key(high, low), answer));
  }

  /** The age beyond which notes are not believed. */
  public long ageMsMax() {
    return ageMsMax;
  }

  /** How many notes were left out because the queue or the disk was full. */
  public long lost() {
    return lost.sum();
  }

  /** Why the ledger can't be used, and what to do; empty while it works. From any thread. */
  public String trouble() {
    return rows.trouble();
  }

  /** The size of all files. */
  public long bytes() {
    return rows.bytes();
  }

  /** How damage was handled when the ledger was opened; empty if there was none. */
  public String openingReport() {
    return rows.openingReport();
  }

  private void work() {
    try {
      tellNewest();
      while (true) {
        workOff();
        if (inbox.hasEnded() && inbox.isEmpty()) {
          return;
        }
        boolean _ = inbox.await(Long.MAX_VALUE);
      }
    } catch (Throwable t) {
      defect.accept(t);
    } finally {
      inbox.end();
    }
  }

  private void workOff() {
    for (Task task = inbox.poll(); task != null; task = inbox.poll()) {
      switch (task) {
        case Task.Note(PresenceRows.Key key, long timeMs) -> {
          notes.put(key, timeMs);
          if (notes.size() == PresenceRows.BATCH_MAX) {
            write();
          }
        }
        case Task.Clear(long timeMs) -> {
          notes.clear();
          if (!rows.clear(timeMs)) {
            lost.increment();
          }
        }
        case Task.Question(PresenceRows.Key key, Answer answer) -> answer.found(isPresent(key));
      }
    }
    write();
  }

  private boolean isPresent(PresenceRows.Key key) {
    Long noted = notes.get(key);
    long timeMs = noted == null ? rows.timeMs(key) : noted;
    return timeMs != PresenceRows.NEVER_MS && isBelieved(timeMs);
  }

  private boolean isBelieved(long timeMs) {
    long age = clockMs.getAsLong() - timeMs;
    // If the time is in the future, the clock was wrong then, or is wrong now.
    return age >= 0 && age <= ageMsMax && timeMs > rows.clearedMs();
  }

  private void write() {
    if (!notes.isEmpty() && !rows.write(notes)) {
      lost.add(notes.size());
    }
    notes.clear();
  }

  private void tellNewest() {
    if (newestMax == 0) {
      return;
    }
    try {
      long now = clockMs.getAsLong();
      long[] counts = new long[AGES + 1];
      if (rows.rowsAbout() > newestMax) {
        scan(
            now,
            (age, high, low) -> {
              counts[age]++;
              return true;
            });
      }
      int oldest = 0;
      long total = counts[0];
      while (oldest < AGES && total < newestMax) {
        oldest++;
        total += counts[oldest];
      }
      int oldestTold = oldest;
      long[] left = {newestMax};
      scan(
          now,
          (age, high, low) -> {
            if (age <= oldestTold) {
              newest.visit(high, low);
              left[0]--;
            }
            return left[0] > 0 && !inbox.hasEnded();
          });
    } catch (RocksDBException e) {
      rows.scanFailed(e);
    }
  }

  /** Called with each row that is believed; returns whether to go on. */
  private interface RowVisitor {
    boolean visit(int age, long high, long low);
  }

  private void scan(long nowMs, RowVisitor visitor) throws RocksDBException {
    rows.scan(
        (high, low, timeMs) -> {
          if (!isBelieved(timeMs)) {
            return true;
          }
          // The clock goes on during the scan, and may be set back.
          long age = Math.clamp(nowMs - timeMs, 0, ageMsMax);
          return visitor.visit((int) (age * (double) AGES / ageMsMax), high, low);
        },
        // Notes and questions do not wait for the end of the scan.
        this::workOff);
  }

  /** Writes the notes that wait, and ends the thread. */
  @Override
  public void close() {
    inbox.end();
    Joining.join(thread);
    rows.close();
  }
}

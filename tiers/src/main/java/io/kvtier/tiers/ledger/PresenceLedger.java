package io.kvtier.tiers.ledger;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.rocks.RocksLibrary;
import io.kvtier.tiers.transfer.Inbox;
import io.kvtier.tiers.transfer.Joining;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompactionOptionsFIFO;
import org.rocksdb.CompactionStyle;
import org.rocksdb.Options;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What was seen to be in a shared store, and when: keys of 128 bits, in a database of their own
 * under {@code presence/} that survives the process. It remembers what is cheap to find out again:
 * so nothing waits for it, nothing is synced, and what does not fit is left out.
 *
 * <p>Callers hand notes and questions to the ledger's thread through a bounded queue, and never
 * touch the database. Whatever happens to that, a question is answered; at worst with no.
 *
 * <p>The database's files are written one after the other, and the oldest one goes when all of them
 * are too large (RocksDB's FIFO compaction). So the cap in bytes is kept without counting and
 * without rewriting anything, and a key that is noted again from time to time stays.
 */
public final class PresenceLedger implements AutoCloseable {
  /** The least cap: logs and buffers take a part of it. */
  public static final long BYTES_MIN = 16L << 20;

  private static final Logger LOG = LoggerFactory.getLogger(PresenceLedger.class);

  private static final String NAME = "presence";
  private static final int QUEUE_CAPACITY = 1 << 16;
  private static final int BATCH_MAX = 4096;
  private static final int KEY_BYTES = 16;

  /** The time since 1970 in ms, big-endian. */
  private static final int VALUE_BYTES = 8;

  private static final long WRITE_BUFFER_BYTES_MIN = 256 << 10;
  private static final long WRITE_BUFFER_BYTES_MAX = 8 << 20;

  /** A buffer is that part of the cap: the files that it makes are about as many. */
  private static final int BUFFERS_IN_CAP = 64;

  /** Of the cap, for logs, and for files that are made before others go. */
  private static final int BUFFERS_RESERVED = 10;

  /** What RocksDB may take at once on top of what it has: most of it a compaction. */
  private static final int BUFFERS_FREE_MIN = 6;

  private static final int BUFFERS_IN_COMPACTION = 4;

  /** The files are measured as often as that while a buffer fills. */
  private static final int LOOKS_A_BUFFER = 4;

  private static final int WAITS_MAX = 100;
  private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(10);

  private static final long RESERVED_BYTES = 3 << 20;
  private static final long MANIFEST_BYTES_MAX = 1 << 20;

  /** The filters of all keys, by far the most of it, and their files' indexes. */
  private static final int CAP_TO_CACHE = 16;

  private static final long CACHE_BYTES_MIN = 2 << 20;
  private static final int FILTER_BITS_A_KEY = 10;
  private static final int TABLE_BLOCK_BYTES = 4 << 10;
  private static final int OPEN_FILES_MAX = 512;

  /** In how many steps of age the newest are told from older ones. */
  private static final int AGES = 1024;

  private static final long REOPEN_NS = TimeUnit.SECONDS.toNanos(1);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  /** Told of a key that is there. */
  @FunctionalInterface
  public interface Visitor {
    void visit(long high, long low);
  }

  /** Told whether a key is there; on the ledger's thread. */
  @FunctionalInterface
  public interface Answer {
    void found(boolean present);
  }

  /**
   * Refuses a directory whose ledger somebody has now; takes and makes nothing.
   *
   * @throws IOException saying so
   */
  public static void requireFree(Path directory) throws IOException {
    LedgerFiles.requireFree(directory, NAME);
  }

  private record Key(long high, long low) {}

  /** Its value is the time before which all is forgotten. */
  private static final byte[] CLEARED_KEY = {'c'};

  /** Instead of a time: to be forgotten. */
  private static final long NEVER_MS = -1;

  private sealed interface Task {
    record Note(Key key, long timeMs) implements Task {}

    record Clear(long timeMs) implements Task {}

    record Question(Key key, Answer answer) implements Task {}
  }

  private final RocksDatabase database;
  private final BloomFilter filter;
  private final CompactionOptionsFIFO oldestGo;
  private final long bytesMax;
  private final long bufferBytes;
  private final long ageMsMax;
  private final Consumer<Throwable> defect;
  private final LongSupplier clockMs;
  private final Inbox<Task> inbox = new Inbox<>(QUEUE_CAPACITY);
  private final LongAdder lost = new LongAdder();
  private final Thread thread;
  private long newestMax;
  private Visitor newest = (high, low) -> {};

  // From here on the thread's own.
  private final Map<Key, Long> notes = new LinkedHashMap<>();
  private final WriteBatch batch;
  private final byte[] keyBytes = new byte[KEY_BYTES];
  private final byte[] valueBytes = new byte[VALUE_BYTES];
  private long clearedMs = NEVER_MS;
  private long unseenBytes;
  private boolean scanning;
  private boolean failed;
  private volatile String trouble = "";
  private long reopenNs;

  /**
   * Opens the ledger in a directory, or makes both. A damaged one is moved aside and an empty one
   * takes its place: {@link #openingReport} then says so.
   *
   * @param directory may hold other files: all of the ledger's own have names that begin with
   *     {@code presence}
   * @param bytesMax of all its files; an entry takes about 30
   * @param ageMsMax what was noted longer ago is not believed: others delete
   * @param defect told of what was thrown, which nothing should
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
    this.bytesMax = bytesMax;
    this.ageMsMax = ageMsMax;
    this.defect = defect;
    this.clockMs = clockMs;
    RocksLibrary.load();
    filter = new BloomFilter(FILTER_BITS_A_KEY);
    batch = new WriteBatch();
    bufferBytes =
        Math.clamp(bytesMax / BUFFERS_IN_CAP, WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES_MAX);
    oldestGo =
        new CompactionOptionsFIFO()
            .setMaxTableFilesSize(bytesMax - RESERVED_BYTES - BUFFERS_RESERVED * bufferBytes)
            // Of the small files that each opening leaves it makes larger ones.
            .setAllowCompaction(true);
    try {
      database =
          new RocksDatabase(
              directory, NAME, CACHE_BYTES_MIN + bytesMax / CAP_TO_CACHE, bufferBytes, this::tune);
      try {
        byte[] cleared = database.get(CLEARED_KEY);
        if (cleared != null && cleared.length == VALUE_BYTES) {
          clearedMs = (long) LONG.get(cleared, 0);
        }
      } catch (IOException | RuntimeException e) {
        database.close();
        throw e;
      }
    } catch (IOException | RuntimeException e) {
      closeOptions();
      throw e;
    }
    thread = Thread.ofPlatform().daemon().name("kvtier-presence").unstarted(this::work);
  }

  private void tune(Options options, BlockBasedTableConfig tables) {
    options
        .setCompactionStyle(CompactionStyle.FIFO)
        .setCompactionOptionsFIFO(oldestGo)
        // By itself it is 30 days, for which all files would have to be open.
        .setTtl(0)
        .setTargetFileSizeBase(bufferBytes)
        .setMaxCompactionBytes(BUFFERS_IN_COMPACTION * bufferBytes)
        .setMaxOpenFiles(OPEN_FILES_MAX)
        .setMaxManifestFileSize(MANIFEST_BYTES_MAX);
    tables.setFilterPolicy(filter).setBlockSize(TABLE_BLOCK_BYTES);
  }

  /**
   * Starts the thread, which first tells of what was noted last; older ones first or not.
   *
   * @param max of so many at most; 0 for none
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
    note(high, low, NEVER_MS);
  }

  /** Notes that nothing is known of any key. From any thread, at once. */
  public void forgetAll() {
    if (!inbox.offer(new Task.Clear(clockMs.getAsLong()))) {
      lost.increment();
    }
  }

  private void note(long high, long low, long timeMs) {
    if (!inbox.offer(new Task.Note(new Key(high, low), timeMs))) {
      lost.increment();
    }
  }

  /**
   * Finds out whether a key was noted to be there, and not too long ago. From any thread, at once.
   *
   * @param answer given on the ledger's thread
   * @return false for no answer: too many are asked for, or this is closed
   */
  public boolean find(long high, long low, Answer answer) {
    return !inbox.hasEnded() && inbox.offer(new Task.Question(new Key(high, low), answer));
  }

  /** What was noted longer ago is not believed. */
  public long ageMsMax() {
    return ageMsMax;
  }

  /** How many notes were left out, for the queue was full or the disk was. */
  public long lost() {
    return lost.sum();
  }

  /** Why it can't be used, and what to do; empty while it works. From any thread. */
  public String trouble() {
    return trouble;
  }

  /** The size of all files. */
  public long bytes() {
    return database.bytes();
  }

  /** What had to be done about damage to open it; empty when there was none. */
  public String openingReport() {
    return database.openingReport();
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
        case Task.Note(Key key, long timeMs) -> {
          notes.put(key, timeMs);
          if (notes.size() == BATCH_MAX) {
            write();
          }
        }
        case Task.Clear(long timeMs) -> {
          notes.clear();
          clear(timeMs);
        }
        case Task.Question(Key key, Answer answer) -> answer.found(isPresent(key));
      }
    }
    write();
  }

  private boolean isPresent(Key key) {
    Long noted = notes.get(key);
    if (noted != null) {
      return noted != NEVER_MS && isBelieved(noted);
    }
    byte[] value = read(key);
    return value != null && value.length == VALUE_BYTES && isBelieved((long) LONG.get(value, 0));
  }

  private boolean isBelieved(long timeMs) {
    long age = clockMs.getAsLong() - timeMs;
    // A time to come is that of a clock that was wrong, then or now.
    return age >= 0 && age <= ageMsMax && timeMs > clearedMs;
  }

  /** What is older stays until it is the oldest, but is not believed; this row outlasts it. */
  private void clear(long timeMs) {
    clearedMs = timeMs;
    if (!isUsable()) {
      lost.increment();
      return;
    }
    try {
      LONG.set(valueBytes, 0, timeMs);
      batch.put(CLEARED_KEY, valueBytes);
      database.write(batch, false);
      worked();
    } catch (RocksDBException e) {
      lost.increment();
      fail(RocksLibrary.describe(e));
    } finally {
      batch.clear();
    }
  }

  private byte @Nullable [] read(Key key) {
    if (!isUsable()) {
      return null;
    }
    try {
      return database.get(bytes(key));
    } catch (IOException e) {
      fail(e.getMessage());
      return null;
    }
  }

  private byte[] bytes(Key key) {
    LONG.set(keyBytes, 0, key.high);
    LONG.set(keyBytes, Long.BYTES, key.low);
    return keyBytes;
  }

  private void write() {
    if (notes.isEmpty()) {
      return;
    }
    if (!isUsable()) {
      lost.add(notes.size());
      notes.clear();
      return;
    }
    try {
      for (Map.Entry<Key, Long> note : notes.entrySet()) {
        long timeMs = note.getValue();
        if (timeMs != NEVER_MS) {
          LONG.set(valueBytes, 0, timeMs);
          batch.put(bytes(note.getKey()), valueBytes);
        } else if (read(note.getKey()) != null) {
          // Most keys that are absent were never noted: to forget them would take space, too.
          batch.delete(bytes(note.getKey()));
        }
      }
      if (batch.count() > 0) {
        if (hasRoom(batch.getDataSize())) {
          database.write(batch, false);
          worked();
        } else {
          lost.add(notes.size());
        }
      }
    } catch (RocksDBException e) {
      lost.add(notes.size());
      fail(RocksLibrary.describe(e));
    } finally {
      batch.clear();
      notes.clear();
    }
  }

  /**
   * Whether the cap leaves room for a batch. RocksDB drops the oldest files by itself, but some
   * time later and without holding up who writes: so this waits for it, and does without the batch
   * before the cap is broken.
   */
  private boolean hasRoom(long bytes) {
    unseenBytes += bytes;
    if (unseenBytes < bufferBytes / LOOKS_A_BUFFER) {
      return true;
    }
    for (int i = 0; i < WAITS_MAX; i++) {
      if (database.bytes() <= bytesMax - BUFFERS_FREE_MIN * bufferBytes) {
        unseenBytes = 0;
        return true;
      }
      LockSupport.parkNanos(this, WAIT_NS);
    }
    return false;
  }

  /** What fails once, as on a full disk, may leave RocksDB refusing all further writes. */
  private boolean isUsable() {
    if (!failed) {
      return true;
    }
    if (scanning || System.nanoTime() - reopenNs < 0) {
      return false;
    }
    try {
      database.reopen();
    } catch (RocksDBException e) {
      fail(RocksLibrary.describe(e));
      return false;
    }
    // Whether it works again the next write shows.
    failed = false;
    return true;
  }

  private void worked() {
    if (!trouble.isEmpty()) {
      LOG.info("the presence ledger in '{}' works again", database.directory());
      trouble = "";
    }
  }

  private void fail(@Nullable String error) {
    String reason = FileErrors.withCure(String.valueOf(error));
    if (trouble.isEmpty()) {
      LOG.warn(
          "the presence ledger in '{}' can't be used, and the store is asked for each block until"
              + " the ledger works again: {}",
          database.directory(),
          reason);
    }
    failed = true;
    trouble = reason;
    reopenNs = System.nanoTime() + REOPEN_NS;
  }

  private void tellNewest() {
    if (newestMax == 0) {
      return;
    }
    try {
      long now = clockMs.getAsLong();
      long[] counts = new long[AGES + 1];
      if (database.rowsAbout() > newestMax) {
        scan(
            now,
            (age, key) -> {
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
          (age, key) -> {
            if (age <= oldestTold) {
              newest.visit((long) LONG.get(key, 0), (long) LONG.get(key, Long.BYTES));
              left[0]--;
            }
            return left[0] > 0 && !inbox.hasEnded();
          });
    } catch (RocksDBException e) {
      fail(RocksLibrary.describe(e));
    }
  }

  /** Told of an entry that is believed; whether to go on. */
  private interface EntryVisitor {
    boolean visit(int age, byte[] key);
  }

  private void scan(long nowMs, EntryVisitor visitor) throws RocksDBException {
    byte[] key = new byte[KEY_BYTES];
    byte[] value = new byte[VALUE_BYTES];
    long seen = 0;
    scanning = true;
    try (RocksIterator entries = database.scan()) {
      for (entries.seekToFirst(); entries.isValid(); entries.next()) {
        if (++seen % BATCH_MAX == 0) {
          // It takes seconds to see all: nobody's notes and questions wait for that.
          workOff();
        }
        if (entries.key(key) != KEY_BYTES || entries.value(value) != VALUE_BYTES) {
          continue;
        }
        long timeMs = (long) LONG.get(value, 0);
        if (isBelieved(timeMs)) {
          // Time goes on while this looks, and may go back.
          long age = Math.clamp(nowMs - timeMs, 0, ageMsMax);
          if (!visitor.visit((int) (age * (double) AGES / ageMsMax), key)) {
            return;
          }
        }
      }
      entries.status();
    } finally {
      scanning = false;
    }
  }

  private void closeOptions() {
    batch.close();
    oldestGo.close();
    filter.close();
  }

  /** Writes what is noted, and ends. */
  @Override
  public void close() {
    inbox.end();
    Joining.join(thread);
    database.close();
    closeOptions();
  }
}

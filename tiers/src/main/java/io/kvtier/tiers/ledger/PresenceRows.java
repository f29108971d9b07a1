package io.kvtier.tiers.ledger;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
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

/**
 * The rows of a {@link PresenceLedger}: a key of 128 bits, and when it was noted. If the database
 * fails, the log says so once, and a second later the database is opened again. For one thread.
 *
 * <p>The database's files are written one after the other, and the oldest file is deleted when all
 * files together are too large (RocksDB's FIFO compaction). This keeps the cap in bytes without
 * counting and without rewriting, and a key that is noted again from time to time stays.
 */
final class PresenceRows implements AutoCloseable {
  /** In place of a time: forget the key, or the key was never noted. */
  static final long NEVER_MS = -1;

  /** The beginning of the names of all files. */
  static final String NAME = "presence";

  /** The most rows that are written together, and that are scanned without a pause. */
  static final int BATCH_MAX = 4096;

  private static final int KEY_BYTES = 16;

  /** The time since 1970 in ms, big-endian. */
  private static final int VALUE_BYTES = 8;

  private static final long WRITE_BUFFER_BYTES_MIN = 256 << 10;
  private static final long WRITE_BUFFER_BYTES_MAX = 8 << 20;

  /** The cap has space for that many buffers, and so for about that many files. */
  private static final int BUFFERS_IN_CAP = 64;

  /** Buffers of the cap that are kept for logs, and for files made before others are deleted. */
  private static final int BUFFERS_RESERVED = 10;

  /** Buffers that RocksDB may take at once on top of its files, mostly for a compaction. */
  private static final int BUFFERS_FREE_MIN = 6;

  private static final int BUFFERS_IN_COMPACTION = 4;

  /** How often the files are measured while a buffer fills. */
  private static final int LOOKS_A_BUFFER = 4;

  private static final int WAITS_MAX = 100;
  private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(10);

  private static final long RESERVED_BYTES = 3 << 20;
  private static final long MANIFEST_BYTES_MAX = 1 << 20;

  /** The cap divided by the cache, which mostly has filters of keys and indexes of files. */
  private static final int CAP_TO_CACHE = 16;

  private static final long CACHE_BYTES_MIN = 2 << 20;
  private static final int FILTER_BITS_A_KEY = 10;
  private static final int TABLE_BLOCK_BYTES = 4 << 10;
  private static final int OPEN_FILES_MAX = 512;

  private static final long REOPEN_NS = TimeUnit.SECONDS.toNanos(1);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  /** The row whose value is the time before which everything is forgotten. */
  private static final byte[] CLEARED_KEY = {'c'};

  /** A key of the ledger. */
  record Key(long high, long low) {}

  /** Called with each row; returns whether to go on. */
  interface Visitor {
    boolean visit(long high, long low, long timeMs);
  }

  private final Logger log;
  private final RocksDatabase database;
  private final BloomFilter filter;
  private final CompactionOptionsFIFO oldestGo;
  private final long bytesMax;
  private final long bufferBytes;
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
   * Opens the database in a directory, or makes both.
   *
   * @param log where operators are told of failures
   * @throws IOException naming the directory and what is wrong with it
   */
  PresenceRows(Path directory, long bytesMax, Logger log) throws IOException {
    this.bytesMax = bytesMax;
    this.log = log;
    RocksLibrary.load();
    filter = new BloomFilter(FILTER_BITS_A_KEY);
    batch = new WriteBatch();
    bufferBytes =
        Math.clamp(bytesMax / BUFFERS_IN_CAP, WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES_MAX);
    oldestGo =
        new CompactionOptionsFIFO()
            .setMaxTableFilesSize(bytesMax - RESERVED_BYTES - BUFFERS_RESERVED * bufferBytes)
            // Each opening leaves small files; a compaction makes larger ones of them.
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
  }

  private void tune(Options options, BlockBasedTableConfig tables) {
    options
        .setCompactionStyle(CompactionStyle.FIFO)
        .setCompactionOptionsFIFO(oldestGo)
        // RocksDB's default is 30 days, for which all files would have to be open.
        .setTtl(0)
        .setTargetFileSizeBase(bufferBytes)
        .setMaxCompactionBytes(BUFFERS_IN_COMPACTION * bufferBytes)
        .setMaxOpenFiles(OPEN_FILES_MAX)
        .setMaxManifestFileSize(MANIFEST_BYTES_MAX);
    tables.setFilterPolicy(filter).setBlockSize(TABLE_BLOCK_BYTES);
  }

  /** Why the database can't be used, and what to do; empty while it works. From any thread. */
  String trouble() {
    return trouble;
  }

  /** The size of all files. From any thread. */
  long bytes() {
    return database.bytes();
  }

  /** How damage was handled when the database was opened; empty if there was none. */
  String openingReport() {
    return database.openingReport();
  }

  /** About how many rows there are. */
  long rowsAbout() throws RocksDBException {
    return database.rowsAbout();
  }

  /** All rows of before this time are forgotten. */
  long clearedMs() {
    return clearedMs;
  }

  /** When a key was noted; {@link #NEVER_MS} where it was not, or where the database fails. */
  long timeMs(Key key) {
    byte[] value = read(key);
    return value != null && value.length == VALUE_BYTES ? (long) LONG.get(value, 0) : NEVER_MS;
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

  /**
   * Forgets all rows of before a time. They stay in the files until they are the oldest rows. The
   * row that has the time outlasts them.
   *
   * @return whether the time was written
   */
  boolean clear(long timeMs) {
    clearedMs = timeMs;
    if (!isUsable()) {
      return false;
    }
    try {
      LONG.set(valueBytes, 0, timeMs);
      batch.put(CLEARED_KEY, valueBytes);
      database.write(batch, false);
      worked();
      return true;
    } catch (RocksDBException e) {
      fail(RocksLibrary.describe(e));
      return false;
    } finally {
      batch.clear();
    }
  }

  /**
   * Writes notes: each key with its time, or {@link #NEVER_MS} to forget it.
   *
   * @return whether they were written
   */
  boolean write(Map<Key, Long> notes) {
    if (!isUsable()) {
      return false;
    }
    try {
      for (Map.Entry<Key, Long> note : notes.entrySet()) {
        long timeMs = note.getValue();
        if (timeMs != NEVER_MS) {
          LONG.set(valueBytes, 0, timeMs);
          batch.put(bytes(note.getKey()), valueBytes);
        } else if (read(note.getKey()) != null) {
          // Most absent keys were never noted: a row that deletes them would take space, too.
          batch.delete(bytes(note.getKey()));
        }
      }
      if (failed) {
        // A read has failed: a key may stay that should be forgotten.
        return false;
      }
      if (batch.count() > 0) {
        if (!hasSpace(batch.getDataSize())) {
          return false;
        }
        database.write(batch, false);
        worked();
      }
      return true;
    } catch (RocksDBException e) {
      fail(RocksLibrary.describe(e));
      return false;
    } finally {
      batch.clear();
    }
  }

  /**
   * Whether a batch fits under the cap. RocksDB deletes the oldest files by itself, but some time
   * later and without delaying writers: so this waits for RocksDB, and gives up the batch rather
   * than break the cap.
   */
  private boolean hasSpace(long bytes) {
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

  /** Whether the database may be used. After a failure, such as a full disk, it is reopened. */
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
    // The next write shows whether it works again.
    failed = false;
    return true;
  }

  private void worked() {
    if (!trouble.isEmpty()) {
      log.info("the presence ledger in '{}' works again", database.directory());
      trouble = "";
    }
  }

  private void fail(@Nullable String error) {
    String reason = FileErrors.withCure(String.valueOf(error));
    if (trouble.isEmpty()) {
      log.warn(
          "the presence ledger in '{}' can't be used, and the store is asked for each block until"
              + " the ledger works again: {}",
          database.directory(),
          reason);
    }
    failed = true;
    trouble = reason;
    reopenNs = System.nanoTime() + REOPEN_NS;
  }

  /** Notes that a scan has failed. */
  void scanFailed(RocksDBException e) {
    fail(RocksLibrary.describe(e));
  }

  /**
   * Visits all rows, in any order.
   *
   * @param pause run every {@link #BATCH_MAX} rows: a scan takes seconds
   */
  void scan(Visitor visitor, Runnable pause) throws RocksDBException {
    byte[] key = new byte[KEY_BYTES];
    byte[] value = new byte[VALUE_BYTES];
    long seen = 0;
    scanning = true;
    try (RocksIterator entries = database.scan()) {
      for (entries.seekToFirst(); entries.isValid(); entries.next()) {
        if (++seen % BATCH_MAX == 0) {
          pause.run();
        }
        if (entries.key(key) != KEY_BYTES || entries.value(value) != VALUE_BYTES) {
          continue;
        }
        long high = (long) LONG.get(key, 0);
        long low = (long) LONG.get(key, Long.BYTES);
        if (!visitor.visit(high, low, (long) LONG.get(value, 0))) {
          return;
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

  @Override
  public void close() {
    database.close();
    closeOptions();
  }
}

package io.kvtier.tiers.ledger;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;

/**
 * The changes of a {@link RocksLedger} since its last commit. While commits fail they only grow in
 * number, so superseded ones are dropped from time to time: then there are as many as the tier has
 * places, at most.
 */
final class RocksPending implements AutoCloseable {
  /** How large the changes may be before it is worth looking which of them still count. */
  static final long COMPACTION_BYTES_MIN = 4L << 20;

  /** Nothing has a key before the first or from the second on. */
  private static final byte[] FIRST_KEY = {0};

  private static final byte[] END_KEY = {(byte) 0xff};

  private final WriteBatch batch = new WriteBatch();
  private boolean cleared;
  private long compactionBytes = COMPACTION_BYTES_MIN;

  WriteBatch batch() {
    return batch;
  }

  boolean isEmpty() {
    return batch.count() == 0;
  }

  int count() {
    return batch.count();
  }

  long bytes() {
    return batch.getDataSize();
  }

  void put(byte[] key, byte[] value) {
    try {
      batch.put(key, value);
    } catch (RocksDBException e) {
      throw new IllegalStateException("a change can't be noted in memory", e);
    }
  }

  void delete(byte[] key) {
    try {
      batch.delete(key);
    } catch (RocksDBException e) {
      throw new IllegalStateException("a change can't be noted in memory", e);
    }
  }

  /** All that was there before goes, and the changes so far with it. */
  void clear() {
    batch.clear();
    try {
      batch.deleteRange(FIRST_KEY, END_KEY);
    } catch (RocksDBException e) {
      throw new IllegalStateException("a change can't be noted in memory", e);
    }
    cleared = true;
  }

  /** The changes were committed. */
  void done() {
    batch.clear();
    cleared = false;
    compactionBytes = COMPACTION_BYTES_MIN;
  }

  /** The changes were not committed: there will be more of them. */
  void keep() {
    if (batch.getDataSize() < compactionBytes) {
      return;
    }
    Latest latest = new Latest();
    try (latest) {
      batch.iterate(latest);
    } catch (RocksDBException e) {
      throw new IllegalStateException("changes noted in memory can't be read", e);
    }
    boolean wasCleared = cleared;
    batch.clear();
    if (wasCleared) {
      clear();
    }
    for (Change change : latest.changes.values()) {
      if (change.value == null) {
        delete(change.key);
      } else {
        put(change.key, change.value);
      }
    }
    compactionBytes = Math.max(COMPACTION_BYTES_MIN, 2 * batch.getDataSize());
  }

  @Override
  public void close() {
    batch.close();
  }

  /** The last word on a key: its value, or none where it goes. */
  private static final class Change {
    final byte[] key;
    final byte @Nullable [] value;

    Change(byte[] key, byte @Nullable [] value) {
      this.key = key;
      this.value = value;
    }
  }

  /** Reads a batch, and remembers the last change of each key. */
  private static final class Latest extends WriteBatch.Handler {
    final Map<ByteBuffer, Change> changes = new LinkedHashMap<>();

    @Override
    public void put(byte[] key, byte[] value) {
      changes.put(ByteBuffer.wrap(key), new Change(key, value));
    }

    @Override
    public void put(int family, byte[] key, byte[] value) {
      put(key, value);
    }

    @Override
    public void delete(byte[] key) {
      changes.put(ByteBuffer.wrap(key), new Change(key, null));
    }

    @Override
    public void delete(int family, byte[] key) {
      delete(key);
    }

    /** Comes first, by {@link RocksPending#clear}, which remembers it by itself. */
    @Override
    public void deleteRange(byte[] begin, byte[] end) {}

    @Override
    public void deleteRange(int family, byte[] begin, byte[] end) {}

    @Override
    public void merge(byte[] key, byte[] value) {
      throw unexpected();
    }

    @Override
    public void merge(int family, byte[] key, byte[] value) {
      throw unexpected();
    }

    @Override
    public void singleDelete(byte[] key) {
      throw unexpected();
    }

    @Override
    public void singleDelete(int family, byte[] key) {
      throw unexpected();
    }

    @Override
    public void logData(byte[] blob) {}

    @Override
    public void putBlobIndex(int family, byte[] key, byte[] value) {
      throw unexpected();
    }

    @Override
    public void markBeginPrepare() {}

    @Override
    public void markEndPrepare(byte[] id) {}

    @Override
    public void markNoop(boolean emptyBatch) {}

    @Override
    public void markRollback(byte[] id) {}

    @Override
    public void markCommit(byte[] id) {}

    @Override
    public void markCommitWithTimestamp(byte[] id, byte[] timestamp) {}

    private static IllegalStateException unexpected() {
      return new IllegalStateException("a ledger only puts and deletes");
    }
  }
}

package io.kvtier.tiers.ledger;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * A ledger in one RocksDB database: a commit is one write of its log, so that it is there or not.
 * Rows are found by scanning only, at the start; so there is no Bloom filter, and hardly a cache.
 *
 * <p>Keys: {@code r} and the place, {@code n} and the namespace's id, both big-endian so that a
 * scan reads the files from front to back; {@code l} for the layout.
 *
 * <p>What fails once, as on a full disk, may leave RocksDB refusing all further writes. So the
 * commit after a failed one opens the database anew first.
 */
public final class RocksLedger implements Ledger {
  private static final long CACHE_BYTES = 2 << 20;
  private static final long WRITE_BUFFER_BYTES = 4 << 20;
  private static final byte ROW = 'r';
  private static final byte NAMESPACE = 'n';
  private static final byte[] LAYOUT_KEY = {'l'};
  private static final int ROW_KEY_BYTES = 9;
  private static final int NAMESPACE_KEY_BYTES = 5;
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);

  private final RocksDatabase database;
  private final RocksPending pending;
  private final LedgerRow row = new LedgerRow();
  private final byte[] rowKey = new byte[ROW_KEY_BYTES];
  private final byte[] namespaceKey = new byte[NAMESPACE_KEY_BYTES];
  private String layout;
  private long damagedRows;
  private boolean failed;

  /**
   * Opens the ledger in a directory, or makes both. A damaged one is moved aside and a new one
   * takes its place: {@link #openingReport} then says so.
   *
   * @param directory may hold other files: all of the ledger's own have names that begin with
   *     {@code ledger}
   * @throws IOException naming the directory and what is wrong with it
   */
  public RocksLedger(Path directory) throws IOException {
    database =
        new RocksDatabase(
            directory, "ledger", CACHE_BYTES, WRITE_BUFFER_BYTES, (options, tables) -> {});
    pending = new RocksPending();
    try {
      byte[] text = database.get(LAYOUT_KEY);
      layout = text == null ? "" : new String(text, UTF_8);
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
    rowKey[0] = ROW;
    namespaceKey[0] = NAMESPACE;
  }

  @Override
  public void record(long place, LedgerEntry entry) {
    row.encode(place, entry);
    LONG.set(rowKey, 1, place);
    byte[] value = row.bytes;
    if (entry.annotationBytes > 0) {
      value = Arrays.copyOf(row.bytes, row.bytes.length + entry.annotationBytes);
      System.arraycopy(entry.annotation, 0, value, row.bytes.length, entry.annotationBytes);
    }
    pending.put(rowKey, value);
  }

  @Override
  public void forget(long place) {
    LONG.set(rowKey, 1, place);
    pending.delete(rowKey);
  }

  @Override
  public void recordNamespace(int id, byte[] fingerprint, String text) {
    Ledger.requireFingerprint(fingerprint);
    byte[] name = text.getBytes(UTF_8);
    byte[] value = Arrays.copyOf(fingerprint, FINGERPRINT_BYTES + name.length);
    System.arraycopy(name, 0, value, FINGERPRINT_BYTES, name.length);
    INT.set(namespaceKey, 1, id);
    pending.put(namespaceKey, value);
  }

  @Override
  public void forgetNamespace(int id) {
    INT.set(namespaceKey, 1, id);
    pending.delete(namespaceKey);
  }

  @Override
  public String layout() {
    return layout;
  }

  @Override
  public void setLayout(String layout) {
    this.layout = layout;
    pending.put(LAYOUT_KEY, layout.getBytes(UTF_8));
  }

  @Override
  public void clear() {
    pending.clear();
    pending.put(LAYOUT_KEY, layout.getBytes(UTF_8));
  }

  @Override
  public void commit(boolean sync) throws IOException {
    if (pending.isEmpty() && !sync) {
      return;
    }
    try {
      if (failed) {
        database.reopen();
        failed = false;
      }
      database.write(pending.batch(), sync);
    } catch (RocksDBException e) {
      failed = true;
      pending.keep();
      throw new IOException(
          "ledger in '"
              + database.directory()
              + "': "
              + pending.count()
              + " changes are not committed, and will be tried again with the next commit: "
              + RocksLibrary.describe(e),
          e);
    }
    pending.done();
  }

  @Override
  public void forEach(EntryVisitor visitor) throws IOException {
    requireCommitted();
    LedgerEntry entry = new LedgerEntry();
    byte[] key = new byte[ROW_KEY_BYTES];
    byte[] value = new byte[LedgerEntryDescriptor.ROW_BYTES + LedgerEntry.ANNOTATION_BYTES_MAX];
    try (RocksIterator rows = database.scan()) {
      for (rows.seek(new byte[] {ROW}); rows.isValid(); rows.next()) {
        int keyLength = rows.key(key);
        if (key[0] != ROW) {
          break;
        }
        long place = (long) LONG.get(key, 1);
        if (keyLength == ROW_KEY_BYTES && decode(place, value, rows.value(value), entry)) {
          visitor.visit(place, entry);
        } else {
          damagedRows++;
        }
      }
      rows.status();
    } catch (RocksDBException e) {
      throw unreadable(e);
    }
  }

  private boolean decode(long place, byte[] value, int length, LedgerEntry entry) {
    int annotationBytes = length - row.bytes.length;
    if (annotationBytes < 0 || length > value.length) {
      return false;
    }
    System.arraycopy(value, 0, row.bytes, 0, row.bytes.length);
    entry.annotate(annotationBytes);
    System.arraycopy(value, row.bytes.length, entry.annotation, 0, annotationBytes);
    return row.decode(place, entry);
  }

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) throws IOException {
    requireCommitted();
    try (RocksIterator rows = database.scan()) {
      for (rows.seek(new byte[] {NAMESPACE}); rows.isValid(); rows.next()) {
        byte[] key = rows.key();
        byte[] value = rows.value();
        if (key[0] != NAMESPACE) {
          break;
        }
        if (key.length == NAMESPACE_KEY_BYTES && value.length >= FINGERPRINT_BYTES) {
          visitor.visit(
              (int) INT.get(key, 1),
              Arrays.copyOf(value, FINGERPRINT_BYTES),
              new String(value, FINGERPRINT_BYTES, value.length - FINGERPRINT_BYTES, UTF_8));
        } else {
          damagedRows++;
        }
      }
      rows.status();
    } catch (RocksDBException e) {
      throw unreadable(e);
    }
  }

  private void requireCommitted() {
    if (!pending.isEmpty()) {
      throw new IllegalStateException(pending.count() + " changes are not committed: commit first");
    }
  }

  private IOException unreadable(RocksDBException cause) {
    return new IOException(
        "ledger in '"
            + database.directory()
            + "' can't be read: "
            + RocksLibrary.describe(cause)
            + "; opened again, it is moved aside if it is damaged",
        cause);
  }

  @Override
  public long bytes() {
    return database.bytes();
  }

  /** The memory that the database takes outside of the heap, caches and changes included. */
  public long memoryBytes() {
    return database.memoryBytes() + pending.bytes();
  }

  @Override
  public long damagedRows() {
    return damagedRows;
  }

  @Override
  public String openingReport() {
    return database.openingReport();
  }

  @Override
  public void close() {
    pending.close();
    database.close();
  }
}

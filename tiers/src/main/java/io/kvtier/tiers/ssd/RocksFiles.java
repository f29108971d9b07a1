package io.kvtier.tiers.ssd;

import io.kvtier.tiers.files.FolderTree;
import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.LRUCache;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;

/**
 * The database of a {@link RocksDevice}: one column family for the lengths of all rows, and for the
 * rows themselves {@link #UNITS} of them with their values in blob files, each of which can have
 * its garbage collected by itself. Confined, but for reads and writes of rows, to one thread at a
 * time.
 */
final class RocksFiles implements AutoCloseable {
  /** What is collected at a time needs as much free space: so it is a small part of all. */
  static final int UNITS = 16;

  private static final String NAME = "blocks";
  private static final long MIB = 1 << 20;
  private static final long CACHE_BYTES = 8 * MIB;
  private static final long BLOB_BYTES_MIN = 1024;
  private static final long BLOB_FILE_BYTES = 64 * MIB;
  private static final long MANIFEST_BYTES_MAX = MIB;
  private static final int BACKGROUND_JOBS = 2;
  private static final int OPEN_FILES_MAX = 256;
  private static final int LOG_FILES_MAX = 2;
  static final int KEY_BYTES = 2 * Integer.BYTES;

  private static final MutableColumnFamilyOptions COLLECTING =
      MutableColumnFamilyOptions.builder()
          .setEnableBlobGarbageCollection(true)
          .setBlobGarbageCollectionAgeCutoff(1.0)
          .build();
  private static final MutableColumnFamilyOptions NOT_COLLECTING =
      MutableColumnFamilyOptions.builder().setEnableBlobGarbageCollection(false).build();

  private final Path path;
  private final Cache cache = new LRUCache(CACHE_BYTES);
  private final DBOptions options;
  private final ColumnFamilyOptions ofLengths;
  private final ColumnFamilyOptions ofRows;
  private final WriteOptions writing = new WriteOptions();
  private final ReadOptions reading = new ReadOptions().setFillCache(false);
  private final FlushOptions flushing = new FlushOptions().setWaitForFlush(true);
  private final CompactRangeOptions compacting =
      new CompactRangeOptions()
          .setExclusiveManualCompaction(true)
          .setBottommostLevelCompaction(
              CompactRangeOptions.BottommostLevelCompaction.kForceOptimized);
  private final List<ColumnFamilyHandle> families = new ArrayList<>();
  private @Nullable RocksDB database;

  /** Told of each row's length. */
  @FunctionalInterface
  interface RowVisitor {
    void visit(int region, int page, int pages) throws RocksDBException;
  }

  /**
   * Opens or makes it.
   *
   * @param bufferBytes what stands in memory and in the log before it is moved to blob files
   */
  RocksFiles(Path directory, long bufferBytes) throws RocksDBException {
    path = directory.resolve(NAME);
    options =
        new DBOptions()
            .setCreateIfMissing(true)
            .setCreateMissingColumnFamilies(true)
            .setDbWriteBufferSize(bufferBytes)
            .setMaxTotalWalSize(bufferBytes)
            .setMaxManifestFileSize(MANIFEST_BYTES_MAX)
            .setMaxBackgroundJobs(BACKGROUND_JOBS)
            .setMaxOpenFiles(OPEN_FILES_MAX)
            .setInfoLogLevel(InfoLogLevel.WARN_LEVEL)
            .setMaxLogFileSize(MIB)
            .setKeepLogFileNum(LOG_FILES_MAX)
            .setStatsDumpPeriodSec(0)
            .setStatsPersistPeriodSec(0);
    ofLengths = family(bufferBytes);
    ofRows =
        family(bufferBytes)
            .setEnableBlobFiles(true)
            .setMinBlobSize(BLOB_BYTES_MIN)
            .setBlobFileSize(BLOB_FILE_BYTES)
            .setBlobCompressionType(CompressionType.NO_COMPRESSION);
    try {
      open();
    } catch (RocksDBException e) {
      close();
      throw e;
    }
  }

  private ColumnFamilyOptions family(long bufferBytes) {
    return new ColumnFamilyOptions()
        .setWriteBufferSize(bufferBytes)
        .setCompressionType(CompressionType.NO_COMPRESSION)
        .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache));
  }

  private void open() throws RocksDBException {
    List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
    descriptors.add(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, ofLengths));
    for (int unit = 0; unit < UNITS; unit++) {
      byte[] name =
          String.format(Locale.ROOT, "rows-%02d", unit).getBytes(StandardCharsets.US_ASCII);
      descriptors.add(new ColumnFamilyDescriptor(name, ofRows));
    }
    database = RocksDB.open(options, path.toString(), descriptors, families);
  }

  /** Closes it and opens it again: what ends its refusals when it could not write once. */
  void reopen() throws RocksDBException {
    closeDatabase();
    open();
  }

  private RocksDB opened() throws RocksDBException {
    if (database == null) {
      throw new RocksDBException("the database is not open");
    }
    return database;
  }

  private ColumnFamilyHandle lengths() throws RocksDBException {
    RocksDB _ = opened();
    return families.getFirst();
  }

  private ColumnFamilyHandle rows(int unit) throws RocksDBException {
    RocksDB _ = opened();
    return families.get(1 + unit);
  }

  void putLength(ByteBuffer key, ByteBuffer length) throws RocksDBException {
    opened().put(lengths(), writing, key, length);
  }

  void putRow(int unit, ByteBuffer key, ByteBuffer row) throws RocksDBException {
    opened().put(rows(unit), writing, key, row);
  }

  /** The length of a row, which may be more than was read of it; negative when there is none. */
  int getRow(int unit, ByteBuffer key, ByteBuffer row) throws RocksDBException {
    return opened().get(rows(unit), reading, key, row);
  }

  /** The row goes first: a length without one is only counted too much. */
  void delete(int unit, byte[] key) throws RocksDBException {
    opened().delete(rows(unit), writing, key);
    opened().delete(lengths(), writing, key);
  }

  void forEachLength(RowVisitor visitor) throws RocksDBException {
    try (RocksIterator lengths = opened().newIterator(lengths(), reading)) {
      for (lengths.seekToFirst(); lengths.isValid(); lengths.next()) {
        ByteBuffer key = ByteBuffer.wrap(lengths.key());
        if (key.capacity() == KEY_BYTES && lengths.value().length == Integer.BYTES) {
          visitor.visit(key.getInt(), key.getInt(), ByteBuffer.wrap(lengths.value()).getInt());
        }
      }
      lengths.status();
    }
  }

  /** Moves all that stands in memory and in the log to files of rows. */
  void flush() throws RocksDBException {
    opened().flush(flushing, families);
  }

  /** What the files of a unit's rows have, garbage included. */
  long blobBytes(int unit) throws RocksDBException {
    return opened().getLongProperty(rows(unit), "rocksdb.live-blob-file-size");
  }

  /** Copies what is alive of a unit into new files, and removes the old ones. */
  void collect(int unit) throws RocksDBException {
    ColumnFamilyHandle rows = rows(unit);
    opened().setOptions(rows, COLLECTING);
    try {
      opened().compactRange(rows, null, null, compacting);
    } finally {
      opened().setOptions(rows, NOT_COLLECTING);
    }
  }

  void sync() throws RocksDBException {
    opened().syncWal();
  }

  /** The size of all files. */
  long fileBytes() {
    return fileBytes(path);
  }

  static long fileBytes(Path path) {
    File[] files = path.toFile().listFiles();
    long bytes = 0;
    if (files != null) {
      for (File file : files) {
        // One that is gone meanwhile has no size: zero.
        bytes += file.length();
      }
    }
    return bytes;
  }

  /**
   * What the files may grow by with nothing more being written: by what stands in memory, and by
   * tables of keys that are merged.
   */
  long growthBytes() throws RocksDBException {
    return opened().getAggregatedLongProperty("rocksdb.size-all-mem-tables")
        + opened().getAggregatedLongProperty("rocksdb.total-sst-files-size");
  }

  static Path pathIn(Path directory) {
    return directory.resolve(NAME);
  }

  /** Removes the database from a directory where there is one. */
  static void remove(Path directory) throws IOException {
    Path path = directory.resolve(NAME);
    if (!Files.isRegularFile(path.resolve("CURRENT"), LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    FolderTree.remove(path);
  }

  static IOException failure(Path directory, String what, RocksDBException cause) {
    return new IOException(
        "SSD tier in '" + directory + "' " + what + ": " + RocksLibrary.describe(cause), cause);
  }

  private void closeDatabase() {
    families.forEach(ColumnFamilyHandle::close);
    families.clear();
    if (database != null) {
      database.close();
      database = null;
    }
  }

  @Override
  public void close() {
    closeDatabase();
    compacting.close();
    flushing.close();
    reading.close();
    writing.close();
    ofRows.close();
    ofLengths.close();
    options.close();
    cache.close();
  }
}

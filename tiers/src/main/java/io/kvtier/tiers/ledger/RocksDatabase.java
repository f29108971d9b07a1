package io.kvtier.tiers.ledger;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.OwnFiles;
import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.CompressionType;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Status;
import org.rocksdb.WALRecoveryMode;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * The files of a ledger in RocksDB: {@code NAME/} with the database, {@code NAME.lock}, and {@code
 * NAME.damaged-TIME} where one had to be moved aside. Memory, threads and log files are bounded,
 * whatever the number of rows.
 */
final class RocksDatabase implements AutoCloseable {
  private static final long MIB = 1 << 20;
  private static final int WRITE_BUFFERS = 2;

  /** Rows are only read one after the other: large blocks, and so a small index. */
  private static final int TABLE_BLOCK_BYTES = 64 << 10;

  private static final long TABLE_FILE_BYTES = 32 * MIB;

  /** For few threads. In one of many, a filter of a whole file might find no room. */
  private static final int ONE_SHARD = 0;

  private static final int OPEN_FILES_MAX = 64;
  private static final long MANIFEST_BYTES_MAX = 4 * MIB;
  private static final long LOG_FILE_BYTES_MAX = MIB;
  private static final int LOG_FILES_MAX = 2;
  private static final int READ_AHEAD_BYTES = 1 << 20;

  /** One flush and one compaction at a time, the fewest that RocksDB can do with. */
  private static final int BACKGROUND_JOBS = 2;

  /** What may be set otherwise. */
  interface Tuning {
    void apply(Options options, BlockBasedTableConfig tables);
  }

  private final Path directory;
  private final String name;
  private final Path path;
  private final FileChannel lock;
  private final Cache cache;
  private final Options options;
  private final WriteOptions unsynced;
  private final WriteOptions synced;
  private final ReadOptions scanning;
  private @Nullable RocksDB database;
  private String openingReport = "";

  /**
   * Opens one or makes it.
   *
   * @param cacheBytes for parts of its files
   * @param writeBufferBytes what stands in memory and in the log before it is written to a file;
   *     there may be two of them
   */
  RocksDatabase(Path directory, String name, long cacheBytes, long writeBufferBytes, Tuning tuning)
      throws IOException {
    this.directory = directory;
    this.name = name;
    path = directory.resolve(name);
    lock = LedgerFiles.lock(directory, name);
    RocksLibrary.load();
    cache = new LRUCache(cacheBytes, ONE_SHARD);
    options = options(cache, writeBufferBytes, tuning);
    unsynced = new WriteOptions();
    synced = new WriteOptions().setSync(true);
    scanning =
        new ReadOptions()
            .setFillCache(false)
            .setReadaheadSize(READ_AHEAD_BYTES)
            .setTotalOrderSeek(true);
    try {
      openOrReplace();
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  private static Options options(Cache cache, long writeBufferBytes, Tuning tuning) {
    BlockBasedTableConfig tables =
        new BlockBasedTableConfig()
            .setBlockCache(cache)
            .setBlockSize(TABLE_BLOCK_BYTES)
            .setCacheIndexAndFilterBlocks(true);
    Options options =
        new Options()
            .setCreateIfMissing(true)
            .setMaxBackgroundJobs(BACKGROUND_JOBS)
            .setMaxSubcompactions(1)
            .setWriteBufferSize(writeBufferBytes)
            .setMaxWriteBufferNumber(WRITE_BUFFERS)
            .setMaxTotalWalSize(WRITE_BUFFERS * writeBufferBytes)
            .setTargetFileSizeBase(TABLE_FILE_BYTES)
            .setMaxOpenFiles(OPEN_FILES_MAX)
            .setCompressionType(CompressionType.LZ4_COMPRESSION)
            // After a loss of power: all up to the last commit that reached the disk whole.
            .setWalRecoveryMode(WALRecoveryMode.PointInTimeRecovery)
            .setMaxManifestFileSize(MANIFEST_BYTES_MAX)
            .setInfoLogLevel(InfoLogLevel.WARN_LEVEL)
            .setMaxLogFileSize(LOG_FILE_BYTES_MAX)
            .setKeepLogFileNum(LOG_FILES_MAX)
            .setStatsDumpPeriodSec(0)
            .setStatsPersistPeriodSec(0);
    tuning.apply(options, tables);
    return options.setTableFormatConfig(tables);
  }

  private void openOrReplace() throws IOException {
    String damage;
    if (lacksItsRoot()) {
      damage = "its file CURRENT is gone";
    } else {
      try {
        makePrivate();
        open();
        opened().verifyChecksum();
        return;
      } catch (RocksDBException e) {
        closeDatabase();
        if (!isDamage(e)) {
          throw new IOException(
              "ledger in '" + directory + "' can't be opened: " + RocksLibrary.describe(e), e);
        }
        damage = RocksLibrary.describe(e);
      }
    }
    openingReport = LedgerFiles.report(directory, damage, LedgerFiles.moveAside(directory, name));
    try {
      makePrivate();
      open();
    } catch (RocksDBException e) {
      throw new IOException(
          openingReport + ", which can't be made: " + RocksLibrary.describe(e), e);
    }
  }

  /** RocksDB would make a new database where this one file is missing, and remove the others. */
  private boolean lacksItsRoot() throws IOException {
    if (!Files.isDirectory(path) || Files.exists(path.resolve("CURRENT"))) {
      return false;
    }
    try (DirectoryStream<Path> files = Files.newDirectoryStream(path, "[0-9]*.{sst,log}")) {
      return files.iterator().hasNext();
    }
  }

  /** RocksDB leaves modes to the umask. */
  private void makePrivate() throws IOException {
    try {
      OwnFiles.makePrivate(path);
    } catch (IOException e) {
      throw new IOException(
          "ledger in '" + directory + "' can't be opened: " + FileErrors.ofMaking(e), e);
    }
  }

  private void open() throws RocksDBException {
    database = RocksDB.open(options, path.toString());
  }

  /** Whether the files themselves are at fault, and not the disk they are on. */
  private static boolean isDamage(RocksDBException error) {
    Status status = error.getStatus();
    if (status == null) {
      return false;
    }
    return switch (status.getCode()) {
      case Corruption, InvalidArgument, NotSupported, NotFound -> true;
      case IOError -> String.valueOf(error.getMessage()).contains("No such file or directory");
      default -> false;
    };
  }

  Path directory() {
    return directory;
  }

  String openingReport() {
    return openingReport;
  }

  byte @Nullable [] get(byte[] key) throws IOException {
    try {
      return opened().get(key);
    } catch (RocksDBException e) {
      throw new IOException(
          "ledger in '" + directory + "' can't be read: " + RocksLibrary.describe(e), e);
    }
  }

  /** Writes a batch as one; an empty one, synced, only syncs what was written before. */
  void write(WriteBatch batch, boolean sync) throws RocksDBException {
    if (batch.count() == 0) {
      opened().flushWal(sync);
    } else {
      opened().write(sync ? synced : unsynced, batch);
    }
  }

  /** The iterator is closed before the database is. */
  RocksIterator scan() throws RocksDBException {
    if (database == null) {
      reopen();
    }
    return opened().newIterator(scanning);
  }

  /** What ends the refusals of a database that could not write once. */
  void reopen() throws RocksDBException {
    closeDatabase();
    open();
  }

  /** The size of all files of the database. */
  long bytes() {
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

  /** How many rows there are, by what RocksDB has counted; changed ones may count twice. */
  long rowsAbout() throws RocksDBException {
    return opened().getLongProperty("rocksdb.estimate-num-keys");
  }

  long memoryBytes() {
    if (database == null) {
      return cache.getUsage();
    }
    try {
      return cache.getUsage()
          + opened().getLongProperty("rocksdb.size-all-mem-tables")
          + opened().getLongProperty("rocksdb.estimate-table-readers-mem");
    } catch (RocksDBException e) {
      throw new IllegalStateException("RocksDB does not know its own memory", e);
    }
  }

  private RocksDB opened() {
    if (database == null) {
      throw new IllegalStateException("the ledger in '" + directory + "' is not open");
    }
    return database;
  }

  private void closeDatabase() {
    if (database != null) {
      database.close();
      database = null;
    }
  }

  @Override
  public void close() {
    closeDatabase();
    scanning.close();
    synced.close();
    unsynced.close();
    options.close();
    cache.close();
    try {
      lock.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

package io.kvtier.tiers.ssd;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.FolderTree;
import io.kvtier.tiers.files.OwnFiles;
import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
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
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Status;
import org.rocksdb.WALRecoveryMode;
import org.rocksdb.WriteOptions;

/**
 * The database of a {@link RocksDevice}: one column family for the lengths of all rows, and for the
 * rows themselves {@link #UNITS} of them with their values in blob files, each of which can have
 * its garbage collected by itself. Confined, but for reads and writes of rows, to one thread at a
 * time.
 *
 * <p>Damaged files keep nobody from opening it: what can be read stays, and what can't goes, a unit
 * at a time where that is enough. That is safe, as who reads a row holds it to the header that
 * names and checks its block: what is missing, or is not the newest, is a miss.
 */
final class RocksFiles implements AutoCloseable {
  /** What is collected at a time needs as much free space: so it is a small part of all. */
  static final int UNITS = 16;

  private static final String NAME = "blocks";
  private static final String MANIFEST = "MANIFEST-";
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
  private final IntConsumer whenReset;
  private @Nullable RocksDB database;
  private String report = "";
  private final BitSet lost = new BitSet(UNITS);

  /** How much of what is there has to be sound. */
  private enum Opening {
    STRICT,
    /** Files that are damaged are found later. */
    LENIENT,
    /** Nothing of what is there is of use. */
    ANEW
  }

  /** A damage that leaves nothing of use. */
  private static final class TotalLoss extends RocksDBException {
    private static final long serialVersionUID = 1L;

    TotalLoss(String message) {
      super(message);
    }
  }

  /** Told of each row's length. */
  @FunctionalInterface
  interface RowVisitor {
    void visit(int region, int page, int pages) throws RocksDBException;
  }

  /**
   * Opens or makes it.
   *
   * @param bufferBytes what stands in memory and in the log before it is moved to blob files
   * @param whenReset told of each unit whose rows are lost
   */
  RocksFiles(Path directory, long bufferBytes, IntConsumer whenReset) throws RocksDBException {
    this.whenReset = whenReset;
    path = directory.resolve(NAME);
    options =
        new DBOptions()
            .setCreateIfMissing(true)
            .setCreateMissingColumnFamilies(true)
            .setDbWriteBufferSize(bufferBytes)
            .setMaxTotalWalSize(bufferBytes)
            // What follows a damaged record is sound, and each row is checked by its reader.
            .setWalRecoveryMode(WALRecoveryMode.SkipAnyCorruptedRecords)
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
    restoreRoot();
    for (Opening how : Opening.values()) {
      try {
        openAs(how);
        resetDamagedUnits();
        return;
      } catch (RocksDBException e) {
        closeDatabase();
        if (!isDamage(e) || how == Opening.ANEW) {
          throw e;
        }
        if (how == Opening.LENIENT || e instanceof TotalLoss) {
          removeAll(e);
        }
      }
    }
  }

  private void openAs(Opening how) throws RocksDBException {
    options.setParanoidChecks(how != Opening.LENIENT);
    List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
    descriptors.add(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, ofLengths));
    for (int unit = 0; unit < UNITS; unit++) {
      descriptors.add(ofUnit(unit));
    }
    database = RocksDB.open(options, path.toString(), descriptors, families);
  }

  private ColumnFamilyDescriptor ofUnit(int unit) {
    return new ColumnFamilyDescriptor(nameOf(unit).getBytes(StandardCharsets.US_ASCII), ofRows);
  }

  private static String nameOf(int unit) {
    return String.format(Locale.ROOT, "rows-%02d", unit);
  }

  /** One file names the newest list of all others: where it is lost, the list is there still. */
  private void restoreRoot() throws RocksDBException {
    Path root = path.resolve("CURRENT");
    try {
      if (!Files.isDirectory(path)
          || (Files.isRegularFile(root)
              && isManifest(Files.readString(root, ISO_8859_1).strip()))) {
        return;
      }
      try (Stream<Path> files = Files.list(path)) {
        String newest =
            files
                .map(file -> file.getFileName().toString())
                .filter(name -> name.startsWith(MANIFEST))
                .max(Comparator.comparingInt(String::length).thenComparing(name -> name))
                .orElse("");
        if (!newest.isEmpty()) {
          note("its file CURRENT was damaged and is restored");
          Files.writeString(root, newest + "\n");
        }
      }
    } catch (IOException e) {
      throw new RocksDBException("its file CURRENT can't be restored: " + FileErrors.words(e));
    }
  }

  private boolean isManifest(String name) {
    return name.startsWith(MANIFEST) && Files.isRegularFile(path.resolve(name));
  }

  private void removeAll(RocksDBException damage) throws RocksDBException {
    note("all of it is dropped: " + RocksLibrary.describe(damage));
    try {
      FolderTree.remove(path);
      OwnFiles.makePrivate(path);
    } catch (IOException e) {
      throw new RocksDBException("what is damaged can't be removed: " + FileErrors.words(e));
    }
    for (int unit = 0; unit < UNITS; unit++) {
      whenReset.accept(unit);
    }
  }

  /** Whether the files themselves are at fault, and not the disk they are on. */
  static boolean isDamage(RocksDBException error) {
    if (error instanceof TotalLoss) {
      return true;
    }
    Status status = error.getStatus();
    return status != null
        && switch (status.getCode()) {
          case Corruption, InvalidArgument, NotSupported, NotFound -> true;
          case IOError -> String.valueOf(error.getMessage()).contains("No such file or directory");
          default -> false;
        };
  }

  /** Reads all tables, which are small: what is damaged would fail later, in a compaction. */
  private void resetDamagedUnits() throws RocksDBException {
    for (int i = 0; i <= UNITS; i++) {
      try {
        opened().verifyChecksum();
        return;
      } catch (RocksDBException e) {
        if (!isDamage(e)) {
          throw e;
        }
        reset(unitOf(e), RocksLibrary.describe(e));
      }
    }
  }

  /** Whose file an error names. */
  private int unitOf(RocksDBException error) throws RocksDBException {
    String words = String.valueOf(error.getMessage());
    for (LiveFileMetaData file : opened().getLiveFilesMetaData()) {
      String family = new String(file.columnFamilyName(), StandardCharsets.US_ASCII);
      for (int unit = 0; unit < UNITS; unit++) {
        if (family.equals(nameOf(unit)) && words.contains(file.fileName().replace("/", ""))) {
          return unit;
        }
      }
    }
    throw new TotalLoss(words);
  }

  /** Drops all rows of a unit, whose files are damaged. */
  void reset(int unit, String damage) throws RocksDBException {
    note("the rows of one part of " + UNITS + " are dropped: " + damage);
    ColumnFamilyHandle damaged = rows(unit);
    opened().dropColumnFamily(damaged);
    families.set(1 + unit, opened().createColumnFamily(ofUnit(unit)));
    damaged.close();
    lost.set(unit);
    whenReset.accept(unit);
  }

  private synchronized void note(String what) {
    report += (report.isEmpty() ? "" : "; ") + what;
  }

  /** Whether a unit's rows were lost at the opening: lengths of them may be there. */
  boolean isReset(int unit) {
    return lost.get(unit);
  }

  /** What was damaged and what became of it, since this was asked last; empty: nothing was. */
  synchronized String takeReport() {
    String taken = report;
    report = "";
    return taken;
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

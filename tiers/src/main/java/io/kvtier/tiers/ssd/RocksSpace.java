package io.kvtier.tiers.ssd;

import io.kvtier.tiers.rocks.RocksLibrary;
import java.io.IOException;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import org.rocksdb.RocksDBException;

/**
 * Keeps the files of a {@link RocksDevice} under their cap. RocksDB's own limit would let a write
 * wait for ever; here each write is counted before it is made, twice, since it stands in the log
 * and in a blob file for a while, and what the collection of one unit's garbage needs is kept free.
 *
 * <p>When the count reaches the limit, who writes has the files measured, then what is in memory
 * flushed, then garbage collected, the unit with the most of it first. Meanwhile others write on as
 * far as there is room.
 */
final class RocksSpace {
  private static final long MIB = 1 << 20;

  /** RocksDB's small files may grow by so much between two measurements. */
  private static final long SLACK_BYTES = 2 * MIB;

  /** Collections go on until such a part of the cap is free, and leave units with less garbage. */
  private static final int COMFORT_OF_CAP = 8;

  private static final int GARBAGE_OF_UNIT = 32;

  /** RocksDB removes files a moment after it has let go of them. */
  private static final int WAITS_MAX = 40;

  private static final int WAIT_MS = 5;

  private final Path directory;
  private final RocksFiles files;
  private final RowTable rows;
  private final Lock quiet;
  private final long cap;
  private final long limit;
  private final AtomicLong counted = new AtomicLong();

  /**
   * Counts nothing before {@link #measure}.
   *
   * @param quiet taken to measure: nobody writes then
   * @param cap the most that all files may be together
   * @param unitBytes what the rows of one unit may be together
   */
  RocksSpace(
      Path directory, RocksFiles files, RowTable rows, Lock quiet, long cap, long unitBytes) {
    this.directory = directory;
    this.files = files;
    this.rows = rows;
    this.quiet = quiet;
    this.cap = cap;
    limit = cap - unitBytes - SLACK_BYTES;
  }

  /** Counts a write that is about to be made, unless there is no room for it. */
  boolean reserve(long bytes) {
    if (counted.addAndGet(2 * bytes) <= limit) {
      return true;
    }
    counted.addAndGet(-2 * bytes);
    return false;
  }

  private boolean hasRoom(long bytes) {
    return counted.get() + 2 * bytes <= limit;
  }

  /** What is done to the database as a whole. */
  @FunctionalInterface
  interface Work {
    void run() throws RocksDBException;
  }

  /** Does something while nobody reads, writes, measures or collects. */
  synchronized void alone(Work work) throws RocksDBException {
    quiet.lock();
    try {
      work.run();
    } finally {
      quiet.unlock();
    }
  }

  /** Counts what there is. */
  void measure() throws RocksDBException {
    quiet.lock();
    try {
      counted.set(files.fileBytes() + files.growthBytes());
    } finally {
      quiet.unlock();
    }
  }

  /**
   * Makes room for a write. One thread at a time does, the others wait for it.
   *
   * @throws IOException when all garbage is collected and there is none
   */
  synchronized void reclaim(long bytes) throws IOException, RocksDBException {
    measure();
    if (hasRoom(bytes)) {
      return;
    }
    files.flush();
    long wanted = bytes + cap / COMFORT_OF_CAP;
    // Each unit once: of rows whose lengths were lost by damage there is no end of garbage.
    BitSet collected = new BitSet(RocksFiles.UNITS);
    boolean any = true;
    while (!waitForRoom(wanted) && any) {
      any = collectOne(collected);
    }
    if (!hasRoom(bytes)) {
      throw new IOException(
          "SSD tier in '"
              + directory
              + "' has reached its cap of "
              + cap
              + " bytes of disk, though no garbage is left in it: raise ssd.bytes");
    }
  }

  private boolean waitForRoom(long bytes) throws RocksDBException {
    long before = Long.MAX_VALUE;
    for (int i = 0; i < WAITS_MAX; i++) {
      measure();
      if (hasRoom(bytes)) {
        return true;
      }
      long now = counted.get();
      if (now >= before) {
        return false;
      }
      before = now;
      pause();
    }
    return false;
  }

  private static void pause() {
    try {
      Thread.sleep(WAIT_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Whether there was a unit with garbage that is worth it. */
  private boolean collectOne(BitSet collected) throws RocksDBException {
    int most = -1;
    long mostGarbage = 0;
    for (int unit = 0; unit < RocksFiles.UNITS; unit++) {
      long blobs = files.blobBytes(unit);
      long garbage = blobs - rows.bytes(unit);
      if (!collected.get(unit) && garbage > mostGarbage && garbage > blobs / GARBAGE_OF_UNIT) {
        most = unit;
        mostGarbage = garbage;
      }
    }
    if (most >= 0) {
      collected.set(most);
      collect(most);
    }
    return most >= 0;
  }

  /** What is damaged can't be copied: the rows of its unit go, and RocksDB takes writes again. */
  private void collect(int unit) throws RocksDBException {
    try {
      files.collect(unit);
    } catch (RocksDBException e) {
      if (!RocksFiles.isDamage(e)) {
        throw e;
      }
      quiet.lock();
      try {
        files.reopen();
        files.reset(unit, RocksLibrary.describe(e));
      } finally {
        quiet.unlock();
      }
    }
  }
}

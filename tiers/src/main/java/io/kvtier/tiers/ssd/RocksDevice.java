package io.kvtier.tiers.ssd;

import io.kvtier.tiers.files.OwnFiles;
import io.kvtier.tiers.rocks.RocksLibrary;
import io.kvtier.tiers.transfer.Pool;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Slots as rows of a RocksDB database with its values in blob files: for file systems without
 * direct IO, and those on which files can't be preallocated. Slower than {@link FileDevice}: bytes
 * are copied, and written twice, the log being the first time.
 *
 * <p>Overwritten rows stay on the disk until {@link RocksSpace} collects them. All files together
 * have a cap. A write that would exceed the cap fails, and the database stays usable. A write
 * removes all rows that it overlaps, as on a disk.
 */
public final class RocksDevice implements SlotDevice {
  private static final Logger LOG = LoggerFactory.getLogger(RocksDevice.class);
  private static final long MIB = 1 << 20;
  private static final long BUFFER_BYTES_MAX = 64 * MIB;

  /** The cap divided by the size of the buffers in memory, and of the log. */
  private static final int BUFFER_OF_CAP = 32;

  /** How often space is reclaimed for one write, as other writes may take it. */
  private static final int ATTEMPTS_MAX = 8;

  /** Buffers of one call, outside the heap as RocksDB wants them. */
  private static final class Desk {
    private final ByteBuffer key = ByteBuffer.allocateDirect(RocksFiles.KEY_BYTES);
    private final ByteBuffer length = ByteBuffer.allocateDirect(Integer.BYTES);
    private MemorySegment row = MemorySegment.NULL;

    ByteBuffer key(int region, int page) {
      return key.clear().putInt(region).putInt(page).flip();
    }

    ByteBuffer length(int pages) {
      return length.clear().putInt(pages).flip();
    }

    MemorySegment row(long bytes) {
      if (row.byteSize() < bytes) {
        row = Arena.ofAuto().allocate(bytes);
      }
      return row.asSlice(0, bytes);
    }
  }

  private final Pool<Desk> desks = new Pool<>(Desk::new);
  private final Path directory;
  private final FileChannel lock;
  private final RocksFiles files;
  private final RowTable rows;
  private final RocksSpace space;

  /** Reads and writes share it; who measures, or opens the database anew, has it alone. */
  private final ReadWriteLock access = new ReentrantReadWriteLock();

  private volatile boolean failed;

  /**
   * Opens or makes the database. Files of a {@link FileDevice} in the directory are removed.
   *
   * @param diskBytesMax the most disk space that is taken, log and garbage included: twice what all
   *     regions have together is enough
   * @throws IOException naming the directory and what is wrong with it
   */
  public RocksDevice(Path directory, int regions, long regionBytes, long diskBytesMax)
      throws IOException {
    this.directory = directory;
    RocksLibrary.load();
    lock = DirectoryLock.take(directory);
    RocksFiles made = null;
    try {
      FileDevice.removeFiles(directory);
      DiskRoom.require(directory, diskBytesMax, RocksFiles.fileBytes(RocksFiles.pathIn(directory)));
      OwnFiles.makePrivate(RocksFiles.pathIn(directory));
      rows = new RowTable(regions, regionBytes, RocksFiles.UNITS);
      made =
          new RocksFiles(
              directory,
              Math.clamp(diskBytesMax / BUFFER_OF_CAP, MIB, BUFFER_BYTES_MAX),
              rows::clear);
      files = made;
      long unitRegions = ((long) regions + RocksFiles.UNITS - 1) / RocksFiles.UNITS;
      space =
          new RocksSpace(
              directory, files, rows, access.writeLock(), diskBytesMax, unitRegions * regionBytes);
      readRows();
      space.measure();
    } catch (RocksDBException e) {
      closeAll(made, lock);
      throw RocksFiles.failure(directory, "can't be opened", e);
    } catch (IOException | RuntimeException e) {
      closeAll(made, lock);
      throw e;
    }
  }

  /** Reads the lengths of rows. Deletes lengths without rows, and rows that fit no longer. */
  private void readRows() throws RocksDBException {
    List<byte[]> misfits = new ArrayList<>();
    files.forEachLength((region, page, pages) -> {
      if (rows.fits(region, page, pages) && !files.isReset(region % RocksFiles.UNITS)) {
        rows.set(region, page, pages);
      } else {
        misfits.add(keyBytes(region, page));
      }
    });
    for (byte[] key : misfits) {
      files.delete(ByteBuffer.wrap(key).getInt() % RocksFiles.UNITS, key);
    }
  }

  /** The damage found since the last call, and how it was handled; empty for no damage. */
  public String takeReport() {
    return files.takeReport();
  }

  /** Whether the database may have a block at a place of the tier. */
  public boolean mayHold(long place) {
    int page = Math.toIntExact(Transfer.offsetOf(place) / RowTable.PAGE_BYTES);
    return rows.fits(Transfer.regionOf(place), page, 1)
        && rows.pages(Transfer.regionOf(place), page) > 0;
  }

  /** The size of all files of the database. */
  public long diskBytes() {
    return files.fileBytes();
  }

  @Override
  public void write(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    Desk desk = desks.take();
    try {
      write(region, offset, header, body, desk);
    } finally {
      desks.give(desk);
    }
  }

  private void write(int region, long offset, MemorySegment header, MemorySegment body, Desk desk)
      throws IOException {
    long bytes = header.byteSize() + body.byteSize();
    int page = Math.toIntExact(offset / RowTable.PAGE_BYTES);
    rows.require(region, page, Math.toIntExact(bytes / RowTable.PAGE_BYTES));
    MemorySegment row = desk.row(bytes);
    row.asSlice(0, header.byteSize()).copyFrom(header);
    row.asSlice(header.byteSize()).copyFrom(body);
    try {
      mend();
      for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (tryWrite(region, page, row, desk)) {
          return;
        }
        space.reclaim(bytes);
        tellDamage();
      }
      throw new IOException(
          "SSD tier in '" + directory + "': others take the room as fast as it is made");
    } catch (RocksDBException e) {
      failed = true;
      throw RocksFiles.failure(directory, "can't be written", e);
    }
  }

  private boolean tryWrite(int region, int page, MemorySegment row, Desk desk)
      throws RocksDBException {
    int pages = Math.toIntExact(row.byteSize() / RowTable.PAGE_BYTES);
    int unit = region % RocksFiles.UNITS;
    access.readLock().lock();
    try {
      if (!space.reserve(row.byteSize())) {
        return false;
      }
      List<byte[]> overlapped = new ArrayList<>(0);
      rows.removeOverlapped(region, page, pages, at -> overlapped.add(keyBytes(region, at)));
      for (byte[] key : overlapped) {
        files.delete(unit, key);
      }
      if (rows.pages(region, page) != pages) {
        rows.set(region, page, pages);
        files.putLength(desk.key(region, page), desk.length(pages));
      }
      files.putRow(unit, desk.key(region, page), row.asByteBuffer());
      return true;
    } finally {
      access.readLock().unlock();
    }
  }

  /** RocksDB refuses all writes after some failures, until it is opened again. */
  private void mend() throws RocksDBException {
    if (!failed) {
      return;
    }
    space.alone(() -> {
      if (failed) {
        files.reopen();
        failed = false;
      }
    });
    space.measure();
    tellDamage();
  }

  private void tellDamage() {
    String damage = files.takeReport();
    if (!damage.isEmpty()) {
      LOG.warn("the database of the SSD tier in '{}' was damaged: {}", directory, damage);
    }
  }

  /** Bytes that were never written are read as zeros, which are no header. */
  @Override
  public void read(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    Desk desk = desks.take();
    try {
      read(region, offset, header, body, desk);
    } finally {
      desks.give(desk);
    }
  }

  private void read(int region, long offset, MemorySegment header, MemorySegment body, Desk desk)
      throws IOException {
    long bytes = header.byteSize() + body.byteSize();
    MemorySegment row = desk.row(bytes);
    int page = Math.toIntExact(offset / RowTable.PAGE_BYTES);
    rows.require(region, page, Math.toIntExact(bytes / RowTable.PAGE_BYTES));
    int length;
    access.readLock().lock();
    try {
      length = files.getRow(region % RocksFiles.UNITS, desk.key(region, page), row.asByteBuffer());
    } catch (RocksDBException e) {
      if (!RocksFiles.isDamage(e)) {
        throw RocksFiles.failure(directory, "can't be read", e);
      }
      // The disk works, but this row is not what was written.
      length = 0;
    } finally {
      access.readLock().unlock();
    }
    if (length < header.byteSize()) {
      header.fill((byte) 0);
      body.fill((byte) 0);
      return;
    }
    header.copyFrom(row.asSlice(0, header.byteSize()));
    long ofBody = Math.min(length, bytes) - header.byteSize();
    MemorySegment.copy(row, header.byteSize(), body, 0, ofBody);
  }

  private static byte[] keyBytes(int region, int page) {
    return ByteBuffer.allocate(RocksFiles.KEY_BYTES).putInt(region).putInt(page).array();
  }

  @Override
  public void sync() throws IOException {
    access.readLock().lock();
    try {
      files.sync();
    } catch (RocksDBException e) {
      failed = true;
      throw RocksFiles.failure(directory, "can't be synced", e);
    } finally {
      access.readLock().unlock();
    }
  }

  @Override
  public void close() {
    try {
      space.alone(() -> closeAll(files, lock));
    } catch (RocksDBException e) {
      throw new IllegalStateException("closing reports nothing", e);
    }
  }

  private static void closeAll(@Nullable RocksFiles files, FileChannel lock) {
    if (files != null) {
      files.close();
    }
    try {
      lock.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

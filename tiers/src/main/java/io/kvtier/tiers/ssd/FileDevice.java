package io.kvtier.tiers.ssd;

import io.kvtier.protocol.linux.DirectFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Preallocated files in one directory, one a region, with direct IO where the file system has it.
 */
public final class FileDevice implements SlotDevice {
  private final DirectFile[] files;
  private final @Nullable FileChannel lock;

  /**
   * Opens or makes the files and takes their space.
   *
   * @throws IOException naming the directory and what is wrong with it
   */
  public FileDevice(Path directory, int regions, long regionBytes) throws IOException {
    files = new DirectFile[regions];
    if (regions == 0) {
      lock = null;
      return;
    }
    try {
      Files.createDirectories(directory);
    } catch (IOException e) {
      throw new IOException("ssd.directory '" + directory + "' can't be made: " + e, e);
    }
    lock = lock(directory);
    try {
      for (int i = 0; i < regions; i++) {
        files[i] =
            DirectFile.open(
                directory.resolve(String.format(Locale.ROOT, "slots-%04d.dat", i)), regionBytes);
      }
    } catch (IOException e) {
      close();
      throw new IOException(
          "SSD tier of "
              + regions
              + " files of "
              + regionBytes
              + " bytes in '"
              + directory
              + "': "
              + e.getMessage()
              + "; lower ssd.bytes or choose another ssd.directory",
          e);
    }
  }

  /** Two daemons in one directory would overwrite each other's blocks. */
  private static FileChannel lock(Path directory) throws IOException {
    FileChannel channel =
        FileChannel.open(
            directory.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    try {
      if (channel.tryLock() != null) {
        return channel;
      }
    } catch (OverlappingFileLockException e) {
      // Held by this very process: the same answer.
    }
    channel.close();
    throw new IOException(
        "ssd.directory '"
            + directory
            + "' is in use by another daemon: choose another ssd.directory");
  }

  /** Whether the page cache is bypassed. */
  public boolean isDirect() {
    return files.length > 0 && files[0].isDirect();
  }

  @Override
  public void write(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    files[region].write(offset, header, body);
  }

  @Override
  public void read(int region, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    files[region].read(offset, header, body);
  }

  @Override
  public void close() {
    for (DirectFile file : files) {
      if (file != null) {
        file.close();
      }
    }
    try {
      if (lock != null) {
        lock.close();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.DirectFile;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Preallocated files in one directory, one a region, with direct IO where the file system has it.
 */
public final class FileDevice implements SlotDevice {
  private static final Pattern OURS = Pattern.compile("slots-[0-9]{4,}\\.dat");

  private final DirectFile[] files;
  private final @Nullable FileChannel lock;

  /**
   * Opens or makes the files and takes their space: all of it, or none. The database of a {@link
   * RocksDevice} in the directory is removed.
   *
   * @throws IOException naming the directory and what is wrong with it
   */
  public FileDevice(Path directory, int regions, long regionBytes) throws IOException {
    this(directory, regions, regionBytes, DirectFile::open);
  }

  /** How a file is opened or made. */
  @FunctionalInterface
  interface Opener {
    DirectFile open(Path file, long bytes) throws IOException;
  }

  FileDevice(Path directory, int regions, long regionBytes, Opener opener) throws IOException {
    files = new DirectFile[regions];
    if (regions == 0) {
      lock = null;
      return;
    }
    lock = DirectoryLock.take(directory);
    try {
      RocksFiles.remove(directory);
      DiskRoom.require(
          directory, regions * regionBytes, removeMisfits(directory, regions, regionBytes));
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
    List<Path> made = new ArrayList<>();
    try {
      for (int i = 0; i < regions; i++) {
        Path file = fileOf(directory, i);
        if (!Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
          made.add(file);
        }
        files[i] = opener.open(file, regionBytes);
      }
    } catch (IOException e) {
      giveBack(made, e);
      close();
      throw new IOException(
          "SSD tier of "
              + regions
              + " files of "
              + regionBytes
              + " bytes in '"
              + directory
              + "': "
              + FileErrors.withCure(
                  FileErrors.words(e), "lower ssd.bytes or choose another ssd.directory"),
          e);
    }
  }

  private static Path fileOf(Path directory, int region) {
    return directory.resolve(nameOf(region));
  }

  private static String nameOf(int region) {
    return String.format(Locale.ROOT, "slots-%04d.dat", region);
  }

  /** For people: where in the directory a transfer's block stands. */
  static String place(Transfer transfer) {
    return nameOf(transfer.region) + ", at " + transfer.offset;
  }

  /**
   * Removes the files of an earlier configuration, which would take space beyond the limit; what
   * stood in them is lost with them.
   *
   * @return the bytes of the files that stay
   */
  private static long removeMisfits(Path directory, int regions, long regionBytes)
      throws IOException {
    Set<Path> wanted = new HashSet<>();
    for (int i = 0; i < regions; i++) {
      wanted.add(fileOf(directory, i));
    }
    long kept = 0;
    try (DirectoryStream<Path> present = Files.newDirectoryStream(directory, "slots-*.dat")) {
      for (Path file : present) {
        if (!OURS.matcher(file.getFileName().toString()).matches()
            || !Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
          continue;
        }
        if (wanted.contains(file) && Files.size(file) == regionBytes) {
          kept += regionBytes;
        } else {
          Files.delete(file);
        }
      }
    }
    return kept;
  }

  /** Removes all such files from a directory. */
  static void removeFiles(Path directory) throws IOException {
    long _ = removeMisfits(directory, 0, 0);
  }

  /** A daemon that does not start leaves no more space taken, and no fewer blocks, than before. */
  private static void giveBack(List<Path> made, IOException cause) {
    for (Path file : made) {
      try {
        if (Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
          Files.delete(file);
        }
      } catch (IOException e) {
        cause.addSuppressed(e);
      }
    }
  }

  /** Whether the page cache is bypassed. */
  public boolean isDirect() {
    return files.length > 0 && files[0].isDirect();
  }

  /** The open files by region, which this device keeps owning. */
  List<Descriptor> descriptors() {
    return Arrays.stream(files).map(DirectFile::descriptor).toList();
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
  public void sync() throws IOException {
    for (DirectFile file : files) {
      file.sync();
    }
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

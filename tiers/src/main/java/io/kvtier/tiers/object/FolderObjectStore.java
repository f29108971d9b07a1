package io.kvtier.tiers.object;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.OwnFiles;
import io.kvtier.tiers.transfer.Pool;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A folder of a file system, which may be one that several machines share. An object is a file of
 * its name, plus a character that no folder's name ends with.
 *
 * <p>An object is written into {@code .incoming} under a unique name, synced, and only then linked
 * or moved to its own name. So an object that has its name is whole, even if its writer was killed.
 * Files of dead writers are removed a day later, when a store is opened.
 *
 * <p>Bytes go through a small buffer of the thread that reads or writes: a file system that hangs
 * keeps the thread, but never the caller's memory.
 */
public final class FolderObjectStore implements ObjectStore {
  private static final Logger LOG = LoggerFactory.getLogger(FolderObjectStore.class);

  /** Well within a processor's second-level cache. */
  private static final int BUFFER_BYTES = 256 << 10;

  private static final int WAITING_MAX = 4096;
  private static final String INCOMING = ".incoming";
  private static final String SUFFIX = "+";
  private static final Duration LEFTOVER_AGE = Duration.ofDays(1);

  private final Pool<ByteBuffer> buffers =
      new Pool<>(() -> ByteBuffer.allocateDirect(BUFFER_BYTES));

  /** The work of a call, on a thread of the store. */
  private interface Work {
    StoreResult run() throws IOException;
  }

  /** The mode of folders where nodes of other users have no part in the store. */
  public static final int OWNER_ONLY = 0700;

  private static final int FILE_BITS = 0666;
  private static final int SET_GROUP = 02000;

  private final Path root;
  private final Path incoming;
  private final int folderMode;
  private final StoreCalls calls = new StoreCalls("folder-deadlines");
  private final ThreadPoolExecutor threads;

  /** Opens a folder that this user alone uses. */
  public FolderObjectStore(Path root, int threadCount) throws IOException {
    this(root, threadCount, OWNER_ONLY);
  }

  /**
   * Opens a folder, and makes it where it is missing; but not its parents: where those are missing,
   * a file system is not mounted, as a rule.
   *
   * @param threadCount the most files that are read and written at a time
   * @param folderMode the mode of all folders that are made, whatever the umask; files have what of
   *     it is for files
   * @throws IOException saying in words what is wrong with the folder
   */
  public FolderObjectStore(Path root, int threadCount, int folderMode) throws IOException {
    this(root, threadCount, folderMode, System::currentTimeMillis);
  }

  FolderObjectStore(Path root, int threadCount, int folderMode, LongSupplier clockMs)
      throws IOException {
    this.root = root;
    this.folderMode = folderMode;
    incoming = root.resolve(INCOMING);
    make(root);
    make(incoming);
    if (folderMode == OWNER_ONLY) {
      closeEarlier();
    }
    removeLeftovers(clockMs.getAsLong() - LEFTOVER_AGE.toMillis());
    threads =
        new ThreadPoolExecutor(
            threadCount,
            threadCount,
            1,
            TimeUnit.MINUTES,
            new ArrayBlockingQueue<>(WAITING_MAX),
            Thread.ofPlatform().daemon().name("folder-store-", 0).factory());
    threads.allowCoreThreadTimeOut(true);
  }

  /** An earlier version left modes to the umask. What is below a closed folder is closed, too. */
  private void closeEarlier() throws IOException {
    OwnFiles.close(incoming);
    try (Stream<Path> folders = Files.list(root)) {
      for (Path folder : (Iterable<Path>) folders::iterator) {
        if (ObjectNames.isTopFolder(String.valueOf(folder.getFileName()))) {
          OwnFiles.close(folder);
        }
      }
    }
  }

  /** The umask would take from a mode that others are to share. */
  private void share(Path made, int mode) throws IOException {
    if (folderMode != OWNER_ONLY) {
      int inherited = (int) Files.getAttribute(made, "unix:mode") & SET_GROUP;
      Files.setAttribute(made, "unix:mode", mode | inherited);
    }
  }

  private void make(Path folder) throws IOException {
    if (Files.isDirectory(folder)) {
      return;
    }
    try {
      Files.createDirectory(folder, OwnFiles.FOLDER);
      share(folder, folderMode);
    } catch (IOException e) {
      // Another node may have made it just now.
      if (!Files.isDirectory(folder)) {
        throw new IOException(
            FileErrors.ofMaking(e)
                + (e instanceof NoSuchFileException ? ": is its file system mounted?" : ""),
            e);
      }
    }
  }

  private int removeLeftovers(long writtenBeforeMs) throws IOException {
    int removed = 0;
    try (Stream<Path> files = Files.list(incoming)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        try {
          FileTime written = Files.getLastModifiedTime(file);
          if (written.toMillis() < writtenBeforeMs) {
            if (Files.deleteIfExists(file)) {
              removed++;
            }
            LOG.info("removed {}, which its writer left behind at {}", file, written);
          }
        } catch (NoSuchFileException e) {
          // Its writer has finished, or another node was faster.
        }
      }
    }
    return removed;
  }

  @Override
  public StoreCall removeUnfinished(long beganBeforeMs, long timeoutNs) {
    return run(calls.begin(timeoutNs), () -> new StoreResult.Done(removeLeftovers(beganBeforeMs)));
  }

  @Override
  public StoreCall put(String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs) {
    Path file = file(name);
    StoreCall call = calls.begin(timeoutNs);
    return run(call, () -> write(call, file, parts, ifAbsent));
  }

  private StoreResult write(StoreCall call, Path file, List<MemorySegment> parts, boolean ifAbsent)
      throws IOException {
    if (ifAbsent && Files.exists(file)) {
      return new StoreResult.Present();
    }
    Path temporary = incoming.resolve(UUID.randomUUID().toString());
    try {
      long bytes = writeParts(call, temporary, call.views(parts));
      if (call.hasEnded()) {
        return new StoreResult.Cancelled();
      }
      return publish(temporary, file, ifAbsent)
          ? new StoreResult.Done(bytes)
          : new StoreResult.Present();
    } finally {
      Files.deleteIfExists(temporary);
    }
  }

  private long writeParts(StoreCall call, Path temporary, List<MemorySegment> views)
      throws IOException {
    ByteBuffer buffer = buffers.take();
    try {
      return writeParts(call, temporary, views, buffer);
    } finally {
      buffers.give(buffer);
    }
  }

  private long writeParts(
      StoreCall call, Path temporary, List<MemorySegment> views, ByteBuffer buffer)
      throws IOException {
    long bytes = 0;
    MemorySegment memory = MemorySegment.ofBuffer(buffer.clear());
    try (FileChannel channel =
        FileChannel.open(
            temporary,
            Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
            OwnFiles.FILE)) {
      share(temporary, folderMode & FILE_BITS);
      for (MemorySegment part : views) {
        for (long at = 0; at < part.byteSize() && !call.hasEnded(); ) {
          int count = (int) Math.min(BUFFER_BYTES, part.byteSize() - at);
          MemorySegment.copy(part, at, memory, 0, count);
          buffer.clear().limit(count);
          while (buffer.hasRemaining()) {
            channel.write(buffer);
          }
          at += count;
          bytes += count;
        }
      }
      channel.force(true);
    }
    return bytes;
  }

  /**
   * Gives a synced file its name.
   *
   * @return false when there was one already, and that was to stay
   */
  private boolean publish(Path temporary, Path file, boolean ifAbsent) throws IOException {
    Path folder = folderOf(file);
    if (!Files.isDirectory(folder)) {
      makeFoldersOf(folder);
      for (Path made = folder; !made.equals(root); made = folderOf(made)) {
        sync(folderOf(made));
      }
    }
    if (ifAbsent) {
      try {
        Files.createLink(file, temporary);
      } catch (FileAlreadyExistsException e) {
        return false;
      } catch (UnsupportedOperationException e) {
        move(temporary, file);
      } catch (AccessDeniedException | NoSuchFileException e) {
        throw e;
      } catch (FileSystemException e) {
        // Some shared file systems have no links. Two writers of a name bring the same block.
        if (Files.exists(file)) {
          return false;
        }
        move(temporary, file);
      }
    } else {
      move(temporary, file);
    }
    sync(folder);
    return true;
  }

  private void makeFoldersOf(Path folder) throws IOException {
    if (!folder.equals(root)) {
      makeFoldersOf(folderOf(folder));
      try {
        Files.createDirectory(folder, OwnFiles.FOLDER);
        share(folder, folderMode);
      } catch (FileAlreadyExistsException e) {
        // Another object of that folder came first.
      }
    }
  }

  private static void move(Path temporary, Path file) throws IOException {
    Files.move(
        temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  /** A new name is durable when its folder is. */
  private static void sync(Path folder) throws IOException {
    try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private static Path folderOf(Path file) {
    Path folder = file.getParent();
    if (folder == null) {
      throw new IllegalStateException(file + " is below no folder");
    }
    return folder;
  }

  @Override
  public StoreCall get(String name, long offset, List<MemorySegment> parts, long timeoutNs) {
    Path file = file(name);
    long bytes = parts.stream().mapToLong(MemorySegment::byteSize).sum();
    if (offset < 0 || bytes == 0) {
      throw new IllegalArgumentException(
          "a get reads at least a byte, from the offset 0 on: " + bytes + " at " + offset);
    }
    StoreCall call = calls.begin(timeoutNs);
    return run(call, () -> read(call, file, offset, call.views(parts)));
  }

  private StoreResult read(StoreCall call, Path file, long offset, List<MemorySegment> views)
      throws IOException {
    ByteBuffer buffer = buffers.take();
    try {
      return read(call, file, offset, views, buffer);
    } finally {
      buffers.give(buffer);
    }
  }

  private static StoreResult read(
      StoreCall call, Path file, long offset, List<MemorySegment> views, ByteBuffer buffer)
      throws IOException {
    long position = offset;
    MemorySegment memory = MemorySegment.ofBuffer(buffer.clear());
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
      for (MemorySegment part : views) {
        for (long at = 0; at < part.byteSize(); ) {
          if (call.hasEnded()) {
            return new StoreResult.Cancelled();
          }
          buffer.clear().limit((int) Math.min(BUFFER_BYTES, part.byteSize() - at));
          int count = channel.read(buffer, position);
          if (count < 0) {
            return new StoreResult.Done(position - offset);
          }
          MemorySegment.copy(memory, 0, part, at, count);
          at += count;
          position += count;
        }
      }
    }
    return new StoreResult.Done(position - offset);
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    Path file = file(name);
    return run(calls.begin(timeoutNs), () -> new StoreResult.Done(Files.size(file)));
  }

  @Override
  public StoreCall list(String prefix, String after, int max, long timeoutNs) {
    checkCount(max);
    StoreCall call = calls.begin(timeoutNs);
    return run(
        call,
        () -> {
          StoreResult page = new FolderList(root, SUFFIX, prefix, after, max).page(call::hasEnded);
          // A store whose folder is gone must not look empty.
          return Files.isDirectory(incoming) ? page : gone();
        });
  }

  private StoreResult gone() {
    return new StoreResult.Unavailable("the folder " + root + " is gone");
  }

  @Override
  public StoreCall delete(List<String> names, long timeoutNs) {
    checkCount(names.size());
    List<Path> files = new ArrayList<>(names.size());
    for (String name : names) {
      files.add(file(name));
    }
    StoreCall call = calls.begin(timeoutNs);
    return run(
        call,
        () -> {
          for (Path file : files) {
            if (call.hasEnded()) {
              return new StoreResult.Cancelled();
            }
            Files.deleteIfExists(file);
          }
          return Files.isDirectory(incoming) ? new StoreResult.Done(files.size()) : gone();
        });
  }

  private static void checkCount(int count) {
    if (count < 1 || count > NAMES_MAX) {
      throw new IllegalArgumentException(
          "one call takes 1 to " + NAMES_MAX + " names, not " + count);
    }
  }

  private Path file(String name) {
    ObjectNames.check(name);
    return root.resolve(name + SUFFIX);
  }

  private StoreCall run(StoreCall call, Work work) {
    if (call.hasEnded()) {
      return call;
    }
    try {
      Future<?> future = threads.submit(() -> call.end(outcome(call, work)));
      call.onAbort(() -> future.cancel(false));
    } catch (RejectedExecutionException e) {
      call.end(new StoreResult.Throttled(0)); // more than WAITING_MAX wait, or the store is closed
    }
    return call;
  }

  private StoreResult outcome(StoreCall call, Work work) {
    if (call.hasEnded()) {
      return new StoreResult.Cancelled();
    }
    try {
      return work.run();
    } catch (AccessDeniedException e) {
      return new StoreResult.Denied(FileErrors.words(e));
    } catch (ClosedByInterruptException | InterruptedIOException e) {
      return new StoreResult.Cancelled();
    } catch (IOException e) {
      if (!Files.isDirectory(incoming)) {
        return gone();
      }
      return e instanceof NoSuchFileException
          ? new StoreResult.Absent()
          : new StoreResult.Unavailable(FileErrors.words(e));
    } catch (RuntimeException e) {
      // An access to the caller's memory after the end of the call also throws.
      return new StoreResult.Unavailable(e.toString());
    }
  }

  @Override
  public String describe() {
    return describe(root);
  }

  /** For people: which folder. */
  public static String describe(Path root) {
    return "the folder " + root;
  }

  @Override
  public void close() {
    calls.close();
    threads.shutdownNow();
  }
}

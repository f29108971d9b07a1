package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Keeper;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.files.FileErrors;
import java.io.IOException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Memory files that outlive the daemon: a keeper holds them for a while, and a note in a directory
 * says which process that is. Whoever starts next takes them over.
 */
public final class KeptMemory implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KeptMemory.class);
  private static final String NOTE = "memory";
  private static final long END_SECONDS = 10;

  private static final int LOOK_EVERY_MS = 500;
  private static final long TRY_AGAIN_NS = TimeUnit.SECONDS.toNanos(10);

  private final Path directory;
  private final long seconds;

  // Under the monitor: the watch's and that of whoever closes.
  private @Nullable Keeper keeper;
  private List<Descriptor> files = List.of();
  private boolean isWatched;
  private @Nullable Watch watch;
  private HandOver handOver = _ -> {};
  private String failure = "";
  private long tryAgainNs;

  /** Who is told that the memory has another keeper, or none. */
  public interface Watch {
    /**
     * Another process keeps the memory, as the one before was ended.
     *
     * @throws IOException when that can't be noted: then that process is not to be relied on
     */
    void restarted(long keeperProcess) throws IOException;

    /** Whether any process keeps it, from now on. */
    void isKept(boolean isKept);
  }

  /** Hears that another process is about to have the memory, before the note says so. */
  @FunctionalInterface
  public interface HandOver {
    /** The process is there, and holds the memory already. */
    void to(long process) throws IOException;
  }

  /** A memory file as it was asked for. */
  record Wanted(String name, long bytes) {}

  /** Who keeps memory, and under which descriptors. */
  private record Note(long keeper, List<Integer> numbers) {}

  /** What an earlier daemon left, in the order in which it was wanted. */
  record Found(long keeperProcess, List<Descriptor> files) {}

  /**
   * Looks after memory, whose note stands in a directory of this user alone.
   *
   * @param seconds how long it is kept when the daemon has ended
   */
  public KeptMemory(Path directory, long seconds) {
    this.directory = directory;
    this.seconds = seconds;
  }

  /** What the note says; null when there is none that can be read. */
  private @Nullable Note note() throws IOException {
    Properties note = new Properties();
    try (var in = Files.newBufferedReader(directory.resolve(NOTE))) {
      note.load(in);
      List<Integer> numbers = new ArrayList<>();
      for (String number : note.getProperty("descriptors", "").split(",", -1)) {
        numbers.add(Integer.parseInt(number));
      }
      return new Note(Long.parseLong(note.getProperty("keeper", "")), numbers);
    } catch (NoSuchFileException e) {
      return null;
    } catch (IOException | IllegalArgumentException e) {
      Files.delete(directory.resolve(NOTE));
      return null;
    }
  }

  /**
   * The files that were left, if they are all there and as large; whatever else was left is let go.
   */
  @Nullable Found find(List<Wanted> wanted) throws IOException {
    Note note = note();
    if (note != null && note.numbers.size() == wanted.size()) {
      List<Descriptor> opened = new ArrayList<>();
      try {
        for (int i = 0; i < wanted.size(); i++) {
          Wanted one = wanted.get(i);
          opened.add(SharedMemory.openOf(note.keeper, note.numbers.get(i), one.name, one.bytes));
        }
        return new Found(note.keeper, opened);
      } catch (IOException e) {
        // Of another size, or gone with their keeper.
        opened.forEach(Descriptor::close);
        if (FileErrors.isOutOfDescriptors(e)) {
          // The memory and its blocks are there: a start with a higher limit takes them over.
          throw e;
        }
      }
    }
    if (note != null && ProcessHandle.of(note.keeper).isPresent()) {
      LOG.warn(
          "the memory that an earlier daemon left with process {} is given up, with the blocks in"
              + " it: it is of other sizes (host.bytes, host.slab_bytes, limits.annotation_bytes)"
              + " or another ledger",
          note.keeper);
    }
    letGo();
    return null;
  }

  /** Lets go what was left, whatever it is: nobody wants it any more. */
  public synchronized void letGo() throws IOException {
    isWatched = false;
    Note note = note();
    if (note != null) {
      end(note.keeper);
      Files.delete(directory.resolve(NOTE));
    }
  }

  /** Sets who is told when the memory is kept by another process than before. */
  public void beforeHandOver(HandOver told) {
    handOver = told;
  }

  /** Has files kept from now on. */
  synchronized void keep(List<Descriptor> wanted, @Nullable Found before) throws IOException {
    files = List.copyOf(wanted);
    keeper = begin(before != null);
    if (before != null) {
      end(before.keeperProcess);
    }
  }

  /**
   * Starts a process that keeps the files.
   *
   * @param isHandedOver whether another one has kept them before
   */
  private Keeper begin(boolean isHandedOver) throws IOException {
    Keeper started = Keeper.start(files, seconds);
    try {
      if (isHandedOver) {
        handOver.to(started.processId());
      }
      write(started);
      return started;
    } catch (IOException e) {
      // Nobody would find the memory, nor let it go. It has just begun, and may not look like one.
      started.bury();
      throw e;
    }
  }

  /**
   * Has another process keep the memory whenever the one that does is ended, until {@link
   * #endWatch}.
   */
  public void watch(Watch told) {
    synchronized (this) {
      watch = told;
      tryAgainNs = System.nanoTime();
      isWatched = true;
    }
    Thread.ofPlatform().daemon().name("kvtier-keeper").start(this::look);
  }

  private void look() {
    while (true) {
      Keeper watched;
      synchronized (this) {
        if (!isWatched) {
          return;
        }
        mend();
        watched = keeper;
      }
      if (watched == null) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LOOK_EVERY_MS));
      } else {
        boolean _ = watched.awaitEnd(LOOK_EVERY_MS);
      }
    }
  }

  /** Looks whether the memory is kept, and sees to it if it is not and could be. */
  private void mend() {
    Watch told = watch;
    Keeper before = keeper;
    long now = System.nanoTime();
    if (told == null || (before != null && !before.awaitEnd(0))) {
      return;
    }
    if (before != null) {
      before.bury();
      keeper = null;
      told.isKept(false);
      LOG.warn(
          "process {}, which kept this daemon's memory for the next, was ended from outside",
          before.processId());
    }
    if (now - tryAgainNs < 0) {
      return;
    }
    tryAgainNs = now + TRY_AGAIN_NS;
    try {
      Keeper started = begin(true);
      try {
        told.restarted(started.processId());
      } catch (IOException e) {
        started.bury();
        throw e;
      }
      keeper = started;
      failure = "";
      told.isKept(true);
      LOG.info("process {} keeps this daemon's memory from now on", started.processId());
    } catch (IOException e) {
      failure = String.valueOf(e.getMessage());
      LOG.warn(
          "no process keeps this daemon's memory: if the daemon ends now, its blocks in memory are"
              + " lost; tried again in {} s: {}",
          TimeUnit.NANOSECONDS.toSeconds(TRY_AGAIN_NS),
          failure);
    }
  }

  /**
   * Ends what {@link #watch} began; to be called while the memory files are open. Looks once more
   * before.
   */
  public synchronized void endWatch() {
    if (isWatched) {
      tryAgainNs = System.nanoTime();
      mend();
      isWatched = false;
    }
  }

  private void write(Keeper started) throws IOException {
    Properties note = new Properties();
    note.setProperty("keeper", String.valueOf(started.processId()));
    note.setProperty(
        "descriptors",
        String.join(",", files.stream().map(one -> String.valueOf(one.number())).toList()));
    Path written = directory.resolve(NOTE + ".new");
    try (var out = Files.newBufferedWriter(written)) {
      note.store(out, "Who holds the memory of kvtierd when it has ended.");
    }
    try {
      Files.move(
          written,
          directory.resolve(NOTE),
          StandardCopyOption.ATOMIC_MOVE,
          StandardCopyOption.REPLACE_EXISTING);
    } catch (AtomicMoveNotSupportedException e) {
      throw new IOException("'" + directory + "' can't be used: it has no atomic renaming", e);
    }
  }

  /** Ends a keeper, if that process still is one, and waits until its memory is free. */
  private static void end(long process) {
    if (isKeeper(process)) {
      kill(process);
    }
  }

  private static void kill(long process) {
    ProcessHandle keeper = ProcessHandle.of(process).orElse(null);
    if (keeper == null || !keeper.destroyForcibly()) {
      return;
    }
    try {
      var _ = keeper.onExit().get(END_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      // Its memory is not free yet: who needs it will say so.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static boolean isKeeper(long process) {
    try {
      // A client has such files open, too, and may have got the number of a keeper that is gone.
      String command = Files.readString(Path.of("/proc/" + process + "/cmdline"));
      if (!command.startsWith("sh\0") && !command.startsWith("sleep\0")) {
        return false;
      }
    } catch (IOException e) {
      return false;
    }
    try (var descriptors = Files.list(Path.of("/proc/" + process + "/fd"))) {
      return descriptors.anyMatch(one -> {
        try {
          return Files.readSymbolicLink(one).toString().startsWith("/memfd:kvtier-");
        } catch (IOException e) {
          return false;
        }
      });
    } catch (IOException e) {
      return false;
    }
  }

  /** The process that the note names, which an earlier daemon left; 0 where there is none. */
  public long notedProcess() throws IOException {
    Note note = note();
    return note == null ? 0 : note.keeper;
  }

  /** Why no process keeps the memory; empty where one does, or none was to. */
  public synchronized String failure() {
    return failure;
  }

  /** The process that keeps the memory; 0 where there is none. */
  public synchronized long keeperProcess() {
    return keeper == null ? 0 : keeper.processId();
  }

  @Override
  public synchronized void close() {
    isWatched = false;
    if (keeper != null) {
      keeper.close();
    }
  }
}

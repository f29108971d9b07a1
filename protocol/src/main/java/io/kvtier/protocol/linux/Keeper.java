package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/**
 * A process that keeps descriptors open when this one ends, for a while: a shell that reads from a
 * pipe of which only this process has the other end, then sleeps, then is gone. Memory files live
 * as long as somebody holds them, so they outlive a crash, and nothing is left behind for ever.
 */
public final class Keeper implements AutoCloseable {
  private static final int O_CLOEXEC = 0x80000;
  private static final int O_WRONLY = 1;
  private static final int SIGKILL = 9;

  // POLLERR: nobody reads from the pipe any more.
  private static final short POLLERR = 8;
  // struct pollfd: i32 fd, i16 events, i16 revents.
  private static final int POLLFD_BYTES = 8;
  private static final short SETSIGMASK = 8;
  private static final short SETSID = 0x80;

  /** Larger than the structures of every C library. */
  private static final long STRUCTURE_BYTES = 1024;

  private final long processId;
  private final Descriptor pipe;

  private Keeper(long processId, Descriptor pipe) {
    this.processId = processId;
    this.pipe = pipe;
  }

  /**
   * Starts the process. The descriptors have the same numbers there.
   *
   * @param seconds how long they stay open after this process has ended
   * @throws IOException when there is no shell, or no process can be made
   */
  public static Keeper start(List<Descriptor> kept, long seconds) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment ends = arena.allocate(JAVA_INT, 2);
      if ((int) Libc.PIPE2.invokeExact(Libc.capture(), ends, O_CLOEXEC) < 0) {
        throw Libc.failure("pipe2", "of a keeper");
      }
      Descriptor pipe = new Descriptor(ends.getAtIndex(JAVA_INT, 1));
      try (Descriptor stdin = new Descriptor(ends.getAtIndex(JAVA_INT, 0))) {
        return new Keeper(spawn(arena, stdin, kept, seconds), pipe);
      } catch (IOException e) {
        pipe.close();
        throw e;
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static long spawn(Arena arena, Descriptor stdin, List<Descriptor> kept, long seconds)
      throws Throwable {
    MemorySegment actions = arena.allocate(STRUCTURE_BYTES, Long.BYTES);
    MemorySegment attributes = arena.allocate(STRUCTURE_BYTES, Long.BYTES);
    check((int) Libc.SPAWN_ACTIONS_INIT.invokeExact(actions));
    check((int) Libc.SPAWN_ATTRIBUTES_INIT.invokeExact(attributes));
    try {
      check((int) Libc.SPAWN_ACTIONS_DUP2.invokeExact(actions, stdin.number(), 0));
      MemorySegment nowhere = arena.allocateFrom("/dev/null");
      for (int output = 1; output <= 2; output++) {
        // Whoever waits for the end of this process's output shall not wait for the keeper's.
        check((int) Libc.SPAWN_ACTIONS_OPEN.invokeExact(actions, output, nowhere, O_WRONLY, 0));
      }
      for (Descriptor one : kept) {
        // Onto itself: it is not closed when the process begins.
        check((int) Libc.SPAWN_ACTIONS_DUP2.invokeExact(actions, one.number(), one.number()));
      }
      for (int other : others(kept)) {
        check((int) Libc.SPAWN_ACTIONS_CLOSE.invokeExact(actions, other));
      }
      // A session of its own: what a terminal or a service manager sends to this one's does not
      // end it. No signal is blocked there.
      short flags = (short) (SETSID | SETSIGMASK);
      check((int) Libc.SPAWN_ATTRIBUTES_FLAGS.invokeExact(attributes, flags));
      String[] words = {"sh", "-c", "read -r _; exec sleep " + seconds + " 0<&-", "kvtier-keeper"};
      MemorySegment arguments = arena.allocate(ADDRESS, words.length + 1L);
      for (int i = 0; i < words.length; i++) {
        arguments.setAtIndex(ADDRESS, i, arena.allocateFrom(words[i]));
      }
      MemorySegment environment = arena.allocate(ADDRESS, 1);
      MemorySegment pid = arena.allocate(JAVA_INT);
      check(
          (int)
              Libc.POSIX_SPAWN.invokeExact(
                  pid, arena.allocateFrom("/bin/sh"), actions, attributes, arguments, environment));
      return pid.get(JAVA_INT, 0);
    } finally {
      int _ = (int) Libc.SPAWN_ACTIONS_DESTROY.invokeExact(actions);
      int _ = (int) Libc.SPAWN_ATTRIBUTES_DESTROY.invokeExact(attributes);
    }
  }

  /** What this process has open beside them: the keeper needs none of it, ports least of all. */
  private static List<Integer> others(List<Descriptor> kept) throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.map(one -> Integer.parseInt(String.valueOf(one.getFileName())))
          .filter(number -> number > 2)
          .filter(number -> kept.stream().noneMatch(one -> one.number() == number))
          .toList();
    }
  }

  private static void check(int error) throws IOException {
    if (error != 0) {
      throw new IOException("a keeper of memory can't be started: " + Errno.describe(error));
    }
  }

  /** The process. */
  public long processId() {
    return processId;
  }

  /**
   * Waits until the process has ended, by whatever cause: the descriptors are no longer held then.
   *
   * @param timeoutMs 0 only looks
   * @return whether it has
   */
  public boolean awaitEnd(int timeoutMs) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment watched = arena.allocate(POLLFD_BYTES, 4);
      watched.set(JAVA_INT, 0, pipe.number());
      int count = (int) Libc.POLL.invokeExact(Libc.capture(), watched, 1L, timeoutMs);
      return count > 0 && (watched.get(JAVA_SHORT, 6) & POLLERR) != 0;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Has the kernel forget the process, which has ended or ends now. */
  public void bury() {
    pipe.close();
    try {
      int _ = (int) Libc.KILL.invokeExact(Libc.capture(), (int) processId, SIGKILL);
      int _ =
          (int) Libc.WAITPID.invokeExact(Libc.capture(), (int) processId, MemorySegment.NULL, 0);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Leaves the process to itself: it ends when its time is over. */
  @Override
  public void close() {
    pipe.close();
  }
}

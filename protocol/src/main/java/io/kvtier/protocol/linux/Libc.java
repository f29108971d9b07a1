package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;

/** Handles of the C library's functions, one each, and the capture of errno. */
@SuppressWarnings("restricted") // this class is the edge to native code
final class Libc {
  private static final Linker LINKER = Linker.nativeLinker();
  private static final Linker.Option ERRNO = Linker.Option.captureCallState("errno");
  private static final StructLayout CAPTURE = Linker.Option.captureStateLayout();
  private static final VarHandle ERRNO_HANDLE =
      CAPTURE.varHandle(MemoryLayout.PathElement.groupElement("errno"));
  private static final ThreadLocal<MemorySegment> CAPTURED =
      ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(CAPTURE));

  static final MethodHandle MMAP =
      checked(
          "mmap",
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG));
  static final MethodHandle MUNMAP =
      checked("munmap", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
  static final MethodHandle MADVISE =
      checked("madvise", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT));
  static final MethodHandle MEMFD_CREATE =
      checked("memfd_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle FTRUNCATE =
      checked("ftruncate", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG));
  static final MethodHandle FALLOCATE =
      checked(
          "fallocate", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG));
  static final MethodHandle FCHMOD =
      checked("fchmod", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle CHMOD =
      checked("chmod", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle FCNTL =
      variadic("fcntl", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT), 2);
  static final MethodHandle OPEN =
      variadic("open", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT), 2);
  static final MethodHandle CLOSE = checked("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
  static final MethodHandle PREADV =
      checked("preadv", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG));
  static final MethodHandle PWRITEV =
      checked("pwritev", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG));
  static final MethodHandle FDATASYNC =
      checked("fdatasync", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
  static final MethodHandle PIPE2 =
      checked("pipe2", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle SOCKET =
      checked("socket", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle BIND =
      checked("bind", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle LISTEN =
      checked("listen", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle CONNECT =
      checked("connect", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle ACCEPT4 =
      checked("accept4", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
  static final MethodHandle SENDMSG =
      checked("sendmsg", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle RECVMSG =
      checked("recvmsg", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle POLL =
      checked("poll", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));
  static final MethodHandle KILL =
      checked("kill", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle WAITPID =
      checked("waitpid", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle FSTATFS =
      checked("fstatfs", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));
  static final MethodHandle IOCTL =
      variadic("ioctl", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS), 2);
  static final MethodHandle SHUTDOWN =
      checked("shutdown", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle GETSOCKOPT =
      checked(
          "getsockopt",
          FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, ADDRESS));
  static final MethodHandle SETSOCKOPT =
      checked(
          "setsockopt",
          FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle EVENTFD =
      checked("eventfd", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle EPOLL_CREATE1 =
      checked("epoll_create1", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
  static final MethodHandle EPOLL_CTL =
      checked("epoll_ctl", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS));
  static final MethodHandle EPOLL_WAIT =
      checked("epoll_wait", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
  static final MethodHandle SIGNAL =
      checked("signal", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, JAVA_LONG));

  // These can't fail.
  static final MethodHandle UMASK = plain("umask", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
  static final MethodHandle GETPAGESIZE = plain("getpagesize", FunctionDescriptor.of(JAVA_INT));

  // As short as a read of a word.
  static final MethodHandle SCHED_GETCPU =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("sched_getcpu"),
          FunctionDescriptor.of(JAVA_INT),
          Linker.Option.critical(false));

  // These return the error and set no errno.
  static final MethodHandle POSIX_SPAWN =
      plain(
          "posix_spawn",
          FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  static final MethodHandle SPAWN_ACTIONS_INIT =
      plain("posix_spawn_file_actions_init", FunctionDescriptor.of(JAVA_INT, ADDRESS));
  static final MethodHandle SPAWN_ACTIONS_DUP2 =
      plain(
          "posix_spawn_file_actions_adddup2",
          FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
  static final MethodHandle SPAWN_ACTIONS_OPEN =
      plain(
          "posix_spawn_file_actions_addopen",
          FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));
  static final MethodHandle SPAWN_ACTIONS_CLOSE =
      plain(
          "posix_spawn_file_actions_addclose", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
  static final MethodHandle SPAWN_ACTIONS_DESTROY =
      plain("posix_spawn_file_actions_destroy", FunctionDescriptor.of(JAVA_INT, ADDRESS));
  static final MethodHandle SPAWN_ATTRIBUTES_INIT =
      plain("posix_spawnattr_init", FunctionDescriptor.of(JAVA_INT, ADDRESS));
  static final MethodHandle SPAWN_ATTRIBUTES_FLAGS =
      plain("posix_spawnattr_setflags", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_SHORT));
  static final MethodHandle SPAWN_ATTRIBUTES_DESTROY =
      plain("posix_spawnattr_destroy", FunctionDescriptor.of(JAVA_INT, ADDRESS));

  // io_uring has no functions in the C library.
  static final MethodHandle IO_URING_SETUP =
      systemCall(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_INT, ADDRESS));
  static final MethodHandle IO_URING_ENTER =
      systemCall(
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, JAVA_LONG));
  static final MethodHandle IO_URING_REGISTER =
      systemCall(
          FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));

  static final MethodHandle STATX =
      systemCall(
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT, ADDRESS));
  static final MethodHandle PIDFD_OPEN =
      systemCall(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT));

  // No errno is captured on the two hot calls: their failures need no handling beyond a retry.
  static final MethodHandle WRITE_UNCHECKED =
      plain("write", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG));
  static final MethodHandle FUTEX_UNCHECKED =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("syscall"),
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT),
          Linker.Option.firstVariadicArg(1));

  static final MethodHandle CLOSE_RANGE =
      systemCall(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT));
  static final MethodHandle SETENV =
      checked("setenv", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
  static final MethodHandle EXECV =
      checked("execv", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));

  private Libc() {}

  static MethodHandle checked(String name, FunctionDescriptor descriptor) {
    return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(name), descriptor, ERRNO);
  }

  private static MethodHandle variadic(
      String name, FunctionDescriptor descriptor, int firstVariadic) {
    return LINKER.downcallHandle(
        LINKER.defaultLookup().findOrThrow(name),
        descriptor,
        ERRNO,
        Linker.Option.firstVariadicArg(firstVariadic));
  }

  /** A system call by its number, the first argument. */
  static MethodHandle systemCall(FunctionDescriptor descriptor) {
    return variadic("syscall", descriptor, 1);
  }

  private static MethodHandle plain(String name, FunctionDescriptor descriptor) {
    return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(name), descriptor);
  }

  /** This thread's errno capture area: the first argument of every checked call. */
  static MemorySegment capture() {
    return CAPTURED.get();
  }

  /** The errno of this thread's last checked call. */
  static int errno() {
    return (int) ERRNO_HANDLE.get(CAPTURED.get(), 0L);
  }

  static ErrnoException failure(String call, String detail) {
    return new ErrnoException(call, errno(), detail);
  }

  /** A handle's unexpected throwable: never an outcome of the call, always a defect. */
  static AssertionError defect(Throwable throwable) {
    if (throwable instanceof Error error) {
      throw error;
    }
    return new AssertionError(throwable);
  }

  static void close(int descriptor) {
    try {
      int ignored = (int) CLOSE.invokeExact(capture(), descriptor);
    } catch (Throwable t) {
      throw defect(t);
    }
  }
}

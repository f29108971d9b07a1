package io.kvtier.protocol.linux;

/** The errno values that kvtier reacts to, from Linux's {@code asm-generic/errno.h}. */
public final class Errno {
  public static final int EPERM = 1;
  public static final int ENOENT = 2;
  public static final int EINTR = 4;
  public static final int EIO = 5;
  public static final int EBADF = 9;
  public static final int EAGAIN = 11;
  public static final int ENOMEM = 12;
  public static final int EACCES = 13;
  public static final int EBUSY = 16;
  public static final int EINVAL = 22;
  public static final int ENFILE = 23;
  public static final int EMFILE = 24;
  public static final int EFBIG = 27;
  public static final int ENOSPC = 28;
  public static final int EROFS = 30;
  public static final int EPIPE = 32;
  public static final int ERANGE = 34;
  public static final int ENOSYS = 38;
  public static final int ENOPROTOOPT = 92;
  public static final int EOPNOTSUPP = 95;
  public static final int EADDRINUSE = 98;
  public static final int ECONNRESET = 104;
  public static final int ETIMEDOUT = 110;
  public static final int ECONNREFUSED = 111;
  public static final int ESTALE = 116;
  public static final int EDQUOT = 122;

  private Errno() {}

  /** The symbolic name and number, with the usual cause in words. */
  public static String describe(int errno) {
    return switch (errno) {
      case EPERM -> "EPERM (1): operation not permitted";
      case ENOENT -> "ENOENT (2): no such file or directory";
      case EINTR -> "EINTR (4): interrupted";
      case EIO -> "EIO (5): input/output error";
      case EBADF -> "EBADF (9): not an open descriptor";
      case EAGAIN -> "EAGAIN (11): would block";
      case ENOMEM -> "ENOMEM (12): out of memory";
      case EACCES -> "EACCES (13): permission denied";
      case EBUSY -> "EBUSY (16): busy";
      case EINVAL -> "EINVAL (22): invalid argument";
      case ENFILE -> "ENFILE (23): too many open files in system";
      case EMFILE -> "EMFILE (24): too many open files";
      case EFBIG -> "EFBIG (27): file too large";
      case ENOSPC -> "ENOSPC (28): no space left on device";
      case EROFS -> "EROFS (30): read-only file system";
      case EPIPE -> "EPIPE (32): broken pipe";
      case ERANGE -> "ERANGE (34): more than there is room for";
      case ENOSYS -> "ENOSYS (38): not in this kernel, or barred by a seccomp filter";
      case EOPNOTSUPP -> "EOPNOTSUPP (95): not supported";
      case EADDRINUSE -> "EADDRINUSE (98): address in use";
      case ECONNRESET -> "ECONNRESET (104): connection reset";
      case ETIMEDOUT -> "ETIMEDOUT (110): timed out";
      case ECONNREFUSED -> "ECONNREFUSED (111): connection refused";
      case ESTALE -> "ESTALE (116): stale file handle";
      case EDQUOT -> "EDQUOT (122): disk quota exceeded";
      default -> "errno " + errno;
    };
  }
}

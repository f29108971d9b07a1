package io.kvtier.daemon;

import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.linux.Errno;
import io.kvtier.protocol.linux.ErrnoException;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.LockFile;
import io.kvtier.tiers.files.OwnFiles;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Objects;

/**
 * A socket's path, held by one daemon at a time: a lock beside it lasts as long as the process, so
 * that a daemon on its way out and its successor never take each other's socket away.
 */
final class SocketPlace implements AutoCloseable {
  private static final int FILE_TYPE_MASK = 0xf000;
  private static final int FILE_TYPE_SOCKET = 0xc000;
  private static final int CONNECT_TIMEOUT_MS = 1000;

  private final Path path;
  private final FileChannel lock;

  private SocketPlace(Path path, FileChannel lock) {
    this.path = path;
    this.lock = lock;
  }

  /** Takes a path; throws with the reason when somebody else has it, or it is no socket's. */
  static SocketPlace take(Path path) throws IOException {
    // Before the lock: it would stay beside a socket that can't be.
    UnixSocket.requireAddress(path);
    requireSocket(path);
    Path folder = path.toAbsolutePath().getParent();
    if (SocketPaths.isInTemporaryFolder(path)) {
      makeOwn(Objects.requireNonNull(folder));
    }
    if (folder != null && !Files.isDirectory(folder)) {
      throw new IOException(
          "socket.path '"
              + path
              + "' is in a folder that does not exist: make '"
              + folder
              + "', or choose another path");
    }
    Path lockPath = path.resolveSibling(path.getFileName() + ".lock");
    FileChannel lock;
    try {
      lock = LockFile.take(lockPath);
    } catch (IOException e) {
      throw new IOException(
          "socket.path '"
              + path
              + "' can't be taken, as the lock beside it can't be made: "
              + FileErrors.words(e)
              + "; choose a path in a folder that this user may write in",
          e);
    }
    if (lock == null) {
      throw inUse(path, " (" + LockFile.holder(lockPath) + ")");
    }
    try {
      removeAbandoned(path);
      return new SocketPlace(path, lock);
    } catch (IOException | RuntimeException e) {
      lock.close();
      throw e;
    }
  }

  /** Where everybody may write, the folder of this user's sockets is this user's alone. */
  private static void makeOwn(Path folder) throws IOException {
    OwnFiles.makeFolders(folder);
    if (Files.isSymbolicLink(folder) || !OwnFiles.isOurs(folder)) {
      throw new IOException(
          "the folder '"
              + folder
              + "' of the socket belongs to user "
              + Integer.toUnsignedString(OwnFiles.ownerOf(folder))
              + " or is a link, who could put another socket there: remove it, or set"
              + " XDG_RUNTIME_DIR or socket.path");
    }
    OwnFiles.close(folder);
  }

  private static IOException inUse(Path path, String who) {
    return new IOException(
        "another daemon answers on socket '"
            + path
            + "'"
            + who
            + ": stop it, or choose another socket.path");
  }

  /**
   * Removes the socket of a daemon that was killed; anything else at its place is not ours to
   * remove.
   */
  private static void removeAbandoned(Path path) throws IOException {
    if (!requireSocket(path)) {
      return;
    }
    try {
      UnixSocket.connect(path, CONNECT_TIMEOUT_MS).close();
    } catch (ErrnoException e) {
      if (e.errno() != Errno.ECONNREFUSED) {
        throw new IOException(
            "socket.path '" + path + "' can't be taken over: " + e.getMessage(), e);
      }
      Files.delete(path);
      return;
    }
    throw inUse(path, "");
  }

  /** Whether there is one; throws where there is something else. */
  private static boolean requireSocket(Path path) throws IOException {
    if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    int type =
        (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS) & FILE_TYPE_MASK;
    if (type != FILE_TYPE_SOCKET) {
      throw new IOException(
          "socket.path '" + path + "' is there already and is no socket: choose another path");
    }
    return true;
  }

  /** Begins to listen. */
  UnixSocket listen(int mode) throws IOException {
    return UnixSocket.listen(path, mode);
  }

  /** Takes the socket's name away: nobody connects any more. The place stays taken. */
  void withdraw() throws IOException {
    Files.deleteIfExists(path);
  }

  @Override
  public void close() throws IOException {
    withdraw();
    // The lock's file stays: removing it would let two daemons lock two files of one name.
    lock.close();
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.tiers.files.LockFile;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Two daemons in one directory would overwrite each other's blocks. */
final class DirectoryLock {
  private DirectoryLock() {}

  /** Takes a directory, until the channel is closed or the process ends. */
  static FileChannel take(Path directory) throws IOException {
    FileChannel lock = LockFile.take(directory.resolve("lock"));
    if (lock != null) {
      return lock;
    }
    throw new IOException(
        "ssd.directory '"
            + directory
            + "' is in use by another daemon: choose another ssd.directory");
  }
}

package io.kvtier.tiers.ssd;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.LockFile;
import io.kvtier.tiers.files.OwnFiles;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Two daemons in one directory would overwrite each other's blocks. */
public final class DirectoryLock {
  private static final String NAME = "lock";

  private DirectoryLock() {}

  /** Makes a directory and takes it, until the channel is closed or the process ends. */
  static FileChannel take(Path directory) throws IOException {
    FileChannel lock;
    try {
      OwnFiles.makeFolders(directory);
      lock = LockFile.take(directory.resolve(NAME));
    } catch (IOException e) {
      throw new IOException(
          "ssd.directory '"
              + directory
              + "' can't be used: "
              + FileErrors.ofMaking(e)
              + "; choose another ssd.directory",
          e);
    }
    if (lock != null) {
      return lock;
    }
    throw inUse(directory);
  }

  /** Refuses a directory that somebody has now; takes and makes nothing. */
  public static void requireFree(Path directory) throws IOException {
    if (!LockFile.isFree(directory.resolve(NAME))) {
      throw inUse(directory);
    }
  }

  private static IOException inUse(Path directory) {
    return new IOException(
        "ssd.directory '"
            + directory
            + "' is in use by another daemon, "
            + LockFile.holder(directory.resolve(NAME))
            + ": choose another ssd.directory");
  }
}

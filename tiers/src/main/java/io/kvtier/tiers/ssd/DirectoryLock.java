package io.kvtier.tiers.ssd;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Two daemons in one directory would overwrite each other's blocks. */
final class DirectoryLock {
  private DirectoryLock() {}

  /** Takes a directory, until the channel is closed or the process ends. */
  static FileChannel take(Path directory) throws IOException {
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
}

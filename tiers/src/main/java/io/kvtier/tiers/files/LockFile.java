package io.kvtier.tiers.files;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.jspecify.annotations.Nullable;

/** A file by which a process has something for itself. */
public final class LockFile {
  private LockFile() {}

  /**
   * Takes a file, until the channel is closed or the process ends; makes it where it is missing.
   *
   * @return null when it is taken, by whomever
   */
  public static @Nullable FileChannel take(Path file) throws IOException {
    FileChannel channel =
        FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    try {
      if (channel.tryLock() != null) {
        return channel;
      }
    } catch (OverlappingFileLockException e) {
      // Held by this very process: the same answer.
    } catch (IOException e) {
      channel.close();
      throw e;
    }
    channel.close();
    return null;
  }

  /** Whether nobody is known to have a file, for the moment; does not make it. */
  public static boolean isFree(Path file) {
    if (!Files.exists(file)) {
      return true;
    }
    try (FileChannel taken = take(file)) {
      return taken != null;
    } catch (IOException e) {
      // Who takes it later will say what is wrong with it.
      return true;
    }
  }
}

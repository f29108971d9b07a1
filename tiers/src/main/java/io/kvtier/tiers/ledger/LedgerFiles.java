package io.kvtier.tiers.ledger;

import io.kvtier.tiers.rocks.DatabaseFolder;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** What the ledgers do with files alike: take a directory for themselves, move damage aside. */
final class LedgerFiles {
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("yyyyMMdd-HHmmss-SSS", Locale.ROOT).withZone(ZoneOffset.UTC);

  private LedgerFiles() {}

  /**
   * Makes the directory and takes it, until the channel is closed or the process ends.
   *
   * @param name what the ledger's files in the directory begin with
   */
  static FileChannel lock(Path directory, String name) throws IOException {
    FileChannel channel;
    try {
      Files.createDirectories(directory);
      channel =
          FileChannel.open(
              directory.resolve(name + ".lock"),
              StandardOpenOption.CREATE,
              StandardOpenOption.WRITE);
    } catch (IOException e) {
      throw new IOException("ledger in '" + directory + "' can't be written: " + e, e);
    }
    try {
      if (channel.tryLock() != null) {
        return channel;
      }
    } catch (OverlappingFileLockException e) {
      // Held by this very process: the same answer.
    }
    channel.close();
    throw new IOException(
        "ledger in '" + directory + "' is in use by another daemon: choose another directory");
  }

  /**
   * Renames what is damaged to NAME.damaged-TIME. Only the latest is kept: a disk that damages them
   * again and again would fill up.
   */
  static Path moveAside(Path directory, String name) throws IOException {
    String damaged = name + ".damaged-";
    try (DirectoryStream<Path> earlier = Files.newDirectoryStream(directory, damaged + "*")) {
      for (Path old : earlier) {
        DatabaseFolder.remove(old);
      }
    }
    Path aside = directory.resolve(damaged + TIME.format(Instant.now()));
    Files.move(directory.resolve(name), aside);
    return aside;
  }

  /** The sentence for {@link Ledger#openingReport}. */
  static String report(Path directory, String damage, Path aside) {
    return "the ledger in '"
        + directory
        + "' was damaged ("
        + damage
        + "): it was moved to '"
        + aside.getFileName()
        + "', and an empty one takes its place";
  }
}

package io.kvtier.tiers.ledger;

import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.FolderTree;
import io.kvtier.tiers.files.LockFile;
import io.kvtier.tiers.files.OwnFiles;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
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
    FileChannel lock;
    try {
      OwnFiles.makeFolders(directory);
      lock = LockFile.take(lockOf(directory, name));
    } catch (IOException e) {
      throw new IOException(
          "ledger in '" + directory + "' can't be written: " + FileErrors.ofMaking(e), e);
    }
    if (lock != null) {
      return lock;
    }
    throw inUse(directory, name);
  }

  /** Refuses a directory that somebody has now; takes and makes nothing. */
  static void requireFree(Path directory, String name) throws IOException {
    if (!LockFile.isFree(lockOf(directory, name))) {
      throw inUse(directory, name);
    }
  }

  private static Path lockOf(Path directory, String name) {
    return directory.resolve(name + ".lock");
  }

  private static IOException inUse(Path directory, String name) {
    return new IOException(
        "ledger in '"
            + directory
            + "' is in use by another daemon, "
            + LockFile.holder(lockOf(directory, name))
            + ": choose another directory");
  }

  /**
   * Renames what is damaged to NAME.damaged-TIME. Only the latest is kept: a disk that damages them
   * again and again would fill up.
   */
  static Path moveAside(Path directory, String name) throws IOException {
    String damaged = name + ".damaged-";
    try (DirectoryStream<Path> earlier = Files.newDirectoryStream(directory, damaged + "*")) {
      for (Path old : earlier) {
        FolderTree.remove(old);
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

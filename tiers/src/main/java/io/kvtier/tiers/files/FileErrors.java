package io.kvtier.tiers.files;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;

/** Why something with files went wrong, in words: a good part of Java's are a path alone. */
public final class FileErrors {
  private FileErrors() {}

  /** Why a file could not be used. */
  public static String words(IOException error) {
    return switch (error) {
      case NoSuchFileException e -> quoted(e) + " does not exist";
      case AccessDeniedException e -> "no right to " + quoted(e);
      case FileAlreadyExistsException e -> quoted(e) + " is there already";
      case NotDirectoryException e -> quoted(e) + " is no folder";
      case FileSystemException e -> quoted(e) + ": " + e.getReason();
      default -> error.getMessage() == null ? error.toString() : error.getMessage();
    };
  }

  private static final String NO_SPACE = "no space left on device";

  /** What operators do about errors of the kernel's, by its words for them. */
  private static final Map<String, String> CURES =
      Map.of(
          NO_SPACE,
          "free space or inodes on that file system (df, df -i)",
          "disk quota exceeded",
          "raise the disk quota of the daemon's user, or free what it takes",
          "read-only file system",
          "mount the file system writable again (dmesg says why the kernel took that away)",
          "file too large",
          "raise the daemon's limit on file sizes (ulimit -f, LimitFSIZE=), or that of the file"
              + " system",
          "too many open files",
          "raise the daemon's limit of open files (ulimit -n, LimitNOFILE=)",
          "input/output error",
          "look at the device's health (dmesg, smartctl)",
          "stale file handle",
          "mount the file system again");

  /** The words of an error, and what to do about it where that is known. */
  public static String withCure(String words) {
    return withCure(words, "");
  }

  /**
   * The same, with what to do where the words name no better cause.
   *
   * @param otherwise empty: nothing
   */
  public static String withCure(String words, String otherwise) {
    String lower = words.toLowerCase(Locale.ROOT);
    String cure = otherwise;
    for (Map.Entry<String, String> known : CURES.entrySet()) {
      if (lower.contains(known.getKey()) && (otherwise.isEmpty() || !isWantOfSpace(known))) {
        cure = known.getValue();
      }
    }
    return cure.isEmpty() || words.contains(cure) ? words : words + "; " + cure;
  }

  private static boolean isWantOfSpace(Map.Entry<String, String> cure) {
    return cure.getKey().equals(NO_SPACE);
  }

  /** Whether this process, or the machine, has no descriptor left: nothing else is wrong then. */
  public static boolean isOutOfDescriptors(IOException error) {
    return words(error).toLowerCase(Locale.ROOT).contains("too many open files");
  }

  /** Why a folder could not be made. */
  public static String ofMaking(IOException error) {
    return switch (error) {
      case NoSuchFileException e -> missing(e);
      case FileAlreadyExistsException e -> quoted(e) + " is there already as a file";
      case AccessDeniedException e -> "no permission to write in '" + existing(e) + "'";
      default -> words(error);
    };
  }

  /** Java names what it could not make; the right is missing in the folder that is there. */
  private static Path existing(AccessDeniedException error) {
    Path path = Path.of(error.getFile()).toAbsolutePath();
    for (Path at = path; at != null; at = at.getParent()) {
      if (Files.isDirectory(at)) {
        return at;
      }
    }
    return path;
  }

  private static String missing(NoSuchFileException error) {
    Path parent = Path.of(error.getFile()).toAbsolutePath().getParent();
    return Files.isDirectory(parent == null ? Path.of("/") : parent)
        ? "'" + parent + "' takes no folders"
        : "'" + parent + "' does not exist";
  }

  private static String quoted(FileSystemException error) {
    return "'" + error.getFile() + "'";
  }
}

package io.kvtier.tiers.files;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;

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

package io.kvtier.tiers.files;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Files and folders that belong to the daemon alone: prompts can be read back from blocks, and
 * whoever can write here chooses what the daemon takes for blocks.
 */
public final class OwnFiles {
  /** Read and written by the owner alone. */
  public static final FileAttribute<Set<PosixFilePermission>> FILE =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

  /** Used by the owner alone. */
  public static final FileAttribute<Set<PosixFilePermission>> FOLDER =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));

  private static final int GROUP_AND_OTHERS = 0077;
  private static final int MODE_BITS = 07777;

  private OwnFiles() {}

  /** Makes a folder that is missing, and those above it. What is there keeps its mode. */
  public static void makeFolders(Path folder) throws IOException {
    Files.createDirectories(folder, FOLDER);
  }

  /**
   * Makes a folder that nothing but the daemon uses, or closes it and the files in it to others: an
   * earlier version left their modes to the umask.
   */
  public static void makePrivate(Path folder) throws IOException {
    makeFolders(folder);
    close(folder);
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        close(file);
      }
    }
  }

  /** Takes all rights of group and others on what this user owns. Links are left alone. */
  public static void close(Path path) throws IOException {
    try {
      int mode = (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS);
      if ((mode & GROUP_AND_OTHERS) != 0 && !Files.isSymbolicLink(path) && isOurs(path)) {
        Files.setAttribute(path, "unix:mode", mode & MODE_BITS & ~GROUP_AND_OTHERS);
      }
    } catch (NoSuchFileException e) {
      // It went in the meantime.
    }
  }

  /** Whether this process's user owns a file; of a link, the link. */
  public static boolean isOurs(Path path) throws IOException {
    return ownerOf(path) == (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
  }

  /** The number of the user who owns a file; of a link, the link. */
  public static int ownerOf(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }
}

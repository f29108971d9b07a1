package io.kvtier.tiers.files;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** A file by which a process has something for itself. */
public final class LockFile {
  private static final int DEVICE_MINOR_BITS = 8;

  private LockFile() {}

  /**
   * Takes a file, until the channel is closed or the process ends; makes it where it is missing.
   * Nobody else can open it, so nobody else can hold it.
   *
   * @return null when it is taken, by whomever: {@link #holder} says by whom
   * @throws IOException when there is something else than a file of this user's
   */
  public static @Nullable FileChannel take(Path file) throws IOException {
    requireOwn(file);
    FileChannel channel =
        FileChannel.open(
            file,
            Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS),
            OwnFiles.FILE);
    try {
      // Somebody else may have made it in the meantime.
      requireOwn(file);
      OwnFiles.close(file);
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

  /**
   * A link would lead to another file, a FIFO would never open, and another's file is locked at
   * will.
   */
  private static void requireOwn(Path file) throws IOException {
    if (!Files.exists(file, LinkOption.NOFOLLOW_LINKS) || Files.isDirectory(file)) {
      return;
    }
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      throw new IOException("'" + file + "' is there already and is no plain file: remove it");
    }
    if (!OwnFiles.isOurs(file)) {
      throw new IOException(
          "'"
              + file
              + "' belongs to user "
              + Integer.toUnsignedString(OwnFiles.ownerOf(file))
              + ", who could lock it at will: remove it, and use a folder in which only this user can write");
    }
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

  /** Who has a file, for a sentence: {@code process 12 (java) of user 0}, or {@code somebody}. */
  public static String holder(Path file) {
    try {
      String place = placeOf(file);
      for (String line : Files.readAllLines(Path.of("/proc/locks"))) {
        // "1: POSIX  ADVISORY  WRITE 77 fe:00:1234 0 EOF"; of those who wait the number is followed
        // by "->".
        String[] words = line.trim().split("\\s+", -1);
        if (words.length > 5 && !words[1].equals("->") && words[5].equals(place)) {
          return process(words[4]);
        }
      }
    } catch (IOException | RuntimeException e) {
      // Not every system tells.
    }
    return "somebody";
  }

  /** As the kernel's table has it: the device's two numbers in hexadecimal, and the inode. */
  private static String placeOf(Path file) throws IOException {
    long device = (long) Files.getAttribute(file, "unix:dev", LinkOption.NOFOLLOW_LINKS);
    long inode = (long) Files.getAttribute(file, "unix:ino", LinkOption.NOFOLLOW_LINKS);
    long major = (device >> DEVICE_MINOR_BITS & 0xfff) | (device >> 32 & ~0xfffL);
    long minor = (device & 0xff) | (device >> 12 & ~0xffL & 0xffffffffL);
    return String.format(Locale.ROOT, "%02x:%02x:%d", major, minor, inode);
  }

  private static String process(String number) throws IOException {
    Path process = Path.of("/proc/" + Integer.parseInt(number));
    if (!Files.exists(process)) {
      return "a process that is not visible from here";
    }
    String command =
        Files.readString(process.resolve("comm")).strip().replaceAll("\\p{Cntrl}", "?");
    return "process "
        + number
        + " ("
        + command
        + ") of user "
        + Integer.toUnsignedString(OwnFiles.ownerOf(process));
  }
}

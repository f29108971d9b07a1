package io.kvtier.tiers.object;

import io.kvtier.tiers.files.FileErrors;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** Where a key comes from. */
public sealed interface KeySource {
  /** More than any form of a key has. */
  int BYTES_MAX = 1024;

  /**
   * What is there, as it is.
   *
   * @throws IOException naming the source, what is wrong with it and what to do
   */
  byte[] read() throws IOException;

  /** For people: which one it is. */
  String describe();

  /**
   * A file that only its owner may write, and nobody beyond its group may read.
   *
   * @param path may be a link
   */
  record KeyFile(Path path) implements KeySource {
    /** To be written by the group; anything by all others. */
    private static final int TOO_MUCH = 0027;

    @Override
    public byte[] read() throws IOException {
      if (!Files.isRegularFile(path)) {
        throw new IOException(
            describe()
                + (Files.exists(path) ? " is no file" : " does not exist")
                + ": make one with 'head -c 32 /dev/urandom', readable by the daemon alone");
      }
      int mode;
      try {
        mode = (int) Files.getAttribute(path, "unix:mode") & 07777;
      } catch (UnsupportedOperationException e) {
        throw new IOException(
            describe() + " is on a file system that can't say who may read it: move it", e);
      }
      if ((mode & TOO_MUCH) != 0) {
        throw new IOException(
            describe()
                + " has mode "
                + String.format(Locale.ROOT, "%04o", mode)
                + ": others may read or change it. Run: chmod 600 '"
                + path
                + "', and make a new key if others may have seen this one");
      }
      try (InputStream input = Files.newInputStream(path)) {
        return input.readNBytes(BYTES_MAX + 1);
      } catch (IOException e) {
        throw new IOException(describe() + " can't be read: " + FileErrors.words(e), e);
      }
    }

    @Override
    public String describe() {
      return "key file '" + path + "'";
    }
  }

  /**
   * A command that prints the key, as one that asks a key management service.
   *
   * @param arguments the program first; no shell reads them
   * @param timeoutNs it is ended then
   */
  record KeyCommand(List<String> arguments, long timeoutNs) implements KeySource {
    public KeyCommand {
      arguments = List.copyOf(arguments);
      if (arguments.isEmpty() || timeoutNs <= 0) {
        throw new IllegalArgumentException(
            "a key command needs a program and some time, not "
                + arguments
                + " and "
                + timeoutNs
                + " ns");
      }
    }

    @Override
    public byte[] read() throws IOException {
      return new KeyProcess(this).output();
    }

    /** Without its arguments, among which there may be secrets. */
    @Override
    public String describe() {
      return "key command '" + arguments.getFirst() + "'";
    }

    @Override
    public String toString() {
      return describe();
    }
  }
}

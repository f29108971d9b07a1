package io.kvtier.tiers.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

/** A file system of its own, small enough to be filled. Only root may mount one. */
public final class SmallFileSystem implements AutoCloseable {
  private final Path path;

  private SmallFileSystem(Path path) {
    this.path = path;
  }

  /** Mounts one below a folder; the test is skipped where that is not allowed. */
  public static SmallFileSystem mount(Path folder, long bytes) throws IOException {
    Path path = Files.createDirectory(folder.resolve("small"));
    String refusal = run("mount", "-t", "tmpfs", "-o", "size=" + bytes, "tmpfs", path.toString());
    assumeTrue(refusal.isEmpty(), () -> "no file system can be mounted here: " + refusal);
    return new SmallFileSystem(path);
  }

  public Path path() {
    return path;
  }

  /** Takes all space that is left. */
  public void fill() throws IOException {
    ByteBuffer page = ByteBuffer.allocateDirect(4096);
    try (FileChannel filler =
        FileChannel.open(
            path.resolve("filler"), StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
      while (true) {
        filler.write(page.clear());
      }
    } catch (IOException full) {
      if (!String.valueOf(full.getMessage()).contains("No space left")) {
        throw full;
      }
    }
  }

  /** Gives back what {@link #fill} took. */
  public void free() throws IOException {
    Files.delete(path.resolve("filler"));
  }

  /** No file may be open for writing. */
  public void makeReadOnly() throws IOException {
    String refusal = run("mount", "-o", "remount,ro", path.toString());
    if (!refusal.isEmpty()) {
      throw new IOException(refusal);
    }
  }

  /** What a command complains of; empty when it succeeded. */
  private static String run(String... command) throws IOException {
    Process process;
    try {
      process = new ProcessBuilder(List.of(command)).redirectErrorStream(true).start();
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
    String output =
        new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    int code = process.onExit().join().exitValue();
    return code == 0 ? "" : output.isEmpty() ? command[0] + " exits with " + code : output;
  }

  @Override
  public void close() throws IOException {
    String refusal = run("umount", path.toString());
    if (!refusal.isEmpty()) {
      throw new IOException(refusal);
    }
  }
}

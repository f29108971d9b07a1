package io.kvtier.cli;

import com.eclipsesource.json.Json;
import io.kvtier.protocol.Secrets;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/** The files of a report, in a folder of its own until they are packed; each without secrets. */
final class ReportFiles implements AutoCloseable {
  /** A shorter value stands in too many places by chance. */
  private static final int SECRET_CHARS_MIN = 6;

  private static final Duration PACK_LIMIT = Duration.ofMinutes(1);

  private final Path root;
  private final Path folder;
  private final List<String> names = new ArrayList<>();
  private final Set<String> secrets =
      new TreeSet<>(Comparator.comparingInt(String::length).reversed().thenComparing(s -> s));

  /** An empty report; its folder is for this user alone. */
  ReportFiles(String name) throws IOException {
    root =
        Files.createTempDirectory(
            "kvtier-report-",
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    folder = Files.createDirectory(root.resolve(name));
  }

  /** A value that no file may hold, wherever it stands. */
  void hide(String secret) {
    if (secret.length() >= SECRET_CHARS_MIN) {
      secrets.add(secret);
      String inJson = Json.value(secret).toString();
      secrets.add(inJson.substring(1, inJson.length() - 1));
    }
  }

  void add(String name, String text) throws IOException {
    Files.writeString(folder.resolve(name), text);
    names.add(name);
  }

  List<String> names() {
    return List.copyOf(names);
  }

  /** Takes the secrets out, and writes the archive, for this user alone. */
  void pack(Path target) throws IOException {
    for (String name : names) {
      Path path = folder.resolve(name);
      String text = Files.readString(path);
      for (String secret : secrets) {
        text = text.replace(secret, Secrets.HIDDEN);
      }
      Files.writeString(path, Secrets.hideInText(text));
    }
    if (Files.exists(target)) {
      throw new FileAlreadyExistsException(target.toString());
    }
    Files.createFile(
        target, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    Program.Ran tar =
        Program.run(
            PACK_LIMIT,
            "tar",
            "-C",
            root.toString(),
            "-czf",
            target.toString(),
            "--",
            folder.getFileName().toString());
    if (!tar.isWell()) {
      throw new IOException(
          "tar did not "
              + (tar.isInTime() ? "pack it: " : "end within " + PACK_LIMIT.toSeconds() + " s: ")
              + tar.err().strip());
    }
  }

  @Override
  public void close() throws IOException {
    try (Stream<Path> all = Files.walk(root)) {
      for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    }
  }
}

package io.kvtier.tiers.ledger;

import io.kvtier.protocol.linux.DirectFile;
import io.kvtier.tiers.files.FileErrors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import net.openhft.chronicle.hash.ChronicleHashCorruption;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;

/** Makes and opens the files of Chronicle maps. */
final class ChronicleMaps {
  private ChronicleMaps() {}

  /**
   * Makes a map, and takes all of its space: a mapped file that finds no space later kills the
   * process. If that fails, the file is deleted.
   *
   * @param content of the map, for people
   * @param setting the configuration key that the size of the file follows
   * @throws IOException naming the file, the cause, and what to do
   */
  static <V> ChronicleMap<Long, V> make(
      ChronicleMapBuilder<Long, V> builder, Path file, String content, String setting)
      throws IOException {
    try {
      ChronicleMap<Long, V> made = builder.createPersistedTo(file.toFile());
      try {
        DirectFile.open(file, Files.size(file)).close();
        return made;
      } catch (IOException e) {
        made.close();
        throw e;
      }
    } catch (IOException e) {
      Files.deleteIfExists(file);
      throw new IOException(
          "no space can be taken for "
              + content
              + " in '"
              + file
              + "': "
              + FileErrors.withCure(
                  FileErrors.words(e), "lower " + setting + " or choose another host.directory"),
          e);
    }
  }

  /**
   * Opens the map of an earlier process.
   *
   * @param isClean whether that process closed the map; otherwise damaged entries are dropped
   */
  static <V> ChronicleMap<Long, V> open(
      ChronicleMapBuilder<Long, V> builder, Path file, boolean isClean) throws IOException {
    return isClean
        ? builder.createPersistedTo(file.toFile())
        : builder.recoverPersistedTo(
            file.toFile(), true, (ChronicleHashCorruption.Listener) _ -> {});
  }
}

package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.SsdConfig;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What the SSD tier takes of one file system: the shares of all its directories that are there.
 *
 * @param directories of the configuration, be they there yet or not
 * @param existing the first of them, or the nearest folder above it that there is
 */
public record DiskShare(List<Path> directories, Path existing, FileStore store, long bytes) {
  /** Of each file system, in the order of the directories; without what can't be asked. */
  public static List<DiskShare> of(SsdConfig ssd) {
    Map<Object, List<Path>> byDevice = new LinkedHashMap<>();
    for (Path directory : ssd.directories()) {
      Path existing = existing(directory);
      try {
        if (existing != null) {
          Object device = Files.getAttribute(existing, "unix:dev");
          byDevice.computeIfAbsent(device, _ -> new ArrayList<>()).add(directory);
        }
      } catch (IOException | UnsupportedOperationException e) {
        // What can't be asked is not judged: the start will tell.
        continue;
      }
    }
    List<DiskShare> shares = new ArrayList<>();
    long each = ssd.bytes() / ssd.directories().size();
    for (List<Path> directories : byDevice.values()) {
      Path existing = existing(directories.getFirst());
      try {
        if (existing != null) {
          FileStore store = Files.getFileStore(existing);
          shares.add(
              new DiskShare(List.copyOf(directories), existing, store, each * directories.size()));
        }
      } catch (IOException e) {
        continue;
      }
    }
    return shares;
  }

  /** The folder, or the nearest above it that there is. */
  public static @Nullable Path existing(Path folder) {
    Path path = folder.toAbsolutePath();
    while (path != null && !Files.exists(path)) {
      path = path.getParent();
    }
    return path;
  }
}

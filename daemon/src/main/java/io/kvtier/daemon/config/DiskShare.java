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
    for (Path directory : ssd.space().directories()) {
      Path existing = existing(directory);
      Object device = existing == null ? null : device(existing);
      if (device != null) {
        byDevice.computeIfAbsent(device, _ -> new ArrayList<>()).add(directory);
      }
    }
    List<DiskShare> shares = new ArrayList<>();
    long each = ssd.space().bytes() / ssd.space().directories().size();
    for (List<Path> directories : byDevice.values()) {
      Path existing = existing(directories.getFirst());
      FileStore store = existing == null ? null : store(existing);
      if (existing != null && store != null) {
        shares.add(
            new DiskShare(List.copyOf(directories), existing, store, each * directories.size()));
      }
    }
    return shares;
  }

  /** Null for what can't be asked; it is not judged: the start will tell. */
  private static @Nullable Object device(Path existing) {
    try {
      return Files.getAttribute(existing, "unix:dev");
    } catch (IOException | UnsupportedOperationException e) {
      return null;
    }
  }

  private static @Nullable FileStore store(Path existing) {
    try {
      return Files.getFileStore(existing);
    } catch (IOException e) {
      return null;
    }
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

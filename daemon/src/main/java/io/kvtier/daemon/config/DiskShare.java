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
 * The SSD tier's share of one file system: the shares of all directories on that file system.
 *
 * @param directories the configured directories; they may be absent
 * @param existing the first directory, or the nearest existing folder above it
 */
public record DiskShare(List<Path> directories, Path existing, FileStore store, long bytes) {
  /**
   * The share of each file system, in the order of the directories. Directories whose file system
   * is not known are left out.
   */
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

  /**
   * The device of a folder; null if it can't be read. Then the folder is not checked here, and the
   * start reports its faults.
   */
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

  /** The folder, or the nearest existing folder above it. */
  public static @Nullable Path existing(Path folder) {
    Path path = folder.toAbsolutePath();
    while (path != null && !Files.exists(path)) {
      path = path.getParent();
    }
    return path;
  }
}

package io.kvtier.tiers.object;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * A page of the names below a folder, in the order of their bytes. It enters only folders that can
 * hold such names, so that going on page by page reads no folder from its begin to its end anew but
 * the ones on the way to the last name.
 */
final class FolderList {
  private final Path root;
  private final String suffix;
  private final String prefix;
  private final String after;
  private final int max;
  private final List<StoredObject> found = new ArrayList<>();
  private boolean more;

  FolderList(Path root, String suffix, String prefix, String after, int max) {
    this.root = root;
    this.suffix = suffix;
    this.prefix = prefix;
    this.after = after;
    this.max = max;
  }

  StoreResult page(BooleanSupplier stop) throws IOException {
    visit(root, "", stop);
    return stop.getAsBoolean() ? new StoreResult.Cancelled() : new StoreResult.Page(found, more);
  }

  private void visit(Path folder, String above, BooleanSupplier stop) throws IOException {
    // A folder's name sorts with the slash behind it, a file's without its suffix.
    TreeMap<String, Path> entries = new TreeMap<>();
    try (Stream<Path> paths = Files.list(folder)) {
      for (Path path : (Iterable<Path>) paths::iterator) {
        String name = String.valueOf(path.getFileName());
        if (name.startsWith(".")) {
          continue;
        }
        String full =
            name.endsWith(suffix)
                ? above + name.substring(0, name.length() - suffix.length())
                : above + name + '/';
        if (isWanted(full)) {
          entries.put(full, path);
        }
      }
    } catch (NoSuchFileException | NotDirectoryException e) {
      // Gone meanwhile, or a file that is none of ours.
      return;
    }
    for (var entry : entries.entrySet()) {
      if (more || stop.getAsBoolean()) {
        return;
      }
      if (entry.getKey().endsWith("/")) {
        visit(entry.getValue(), entry.getKey(), stop);
      } else {
        add(entry.getKey(), entry.getValue());
      }
    }
  }

  private boolean isWanted(String full) {
    if (full.endsWith("/")) {
      boolean below = full.startsWith(prefix) || prefix.startsWith(full);
      return below && (full.compareTo(after) > 0 || after.startsWith(full));
    }
    return full.startsWith(prefix) && full.compareTo(after) > 0;
  }

  private void add(String name, Path file) throws IOException {
    if (found.size() == max) {
      more = true;
      return;
    }
    try {
      BasicFileAttributes attributes = Files.readAttributes(file, BasicFileAttributes.class);
      found.add(
          new StoredObject(name, attributes.size(), attributes.lastModifiedTime().toMillis()));
    } catch (NoSuchFileException e) {
      // Deleted meanwhile.
    }
  }
}

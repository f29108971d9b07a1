package io.kvtier.daemon.access;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import org.jspecify.annotations.Nullable;

/** By what it is seen that a file was written or replaced; all null while there is none. */
record FileStamp(@Nullable FileTime modified, @Nullable Object key, long bytes) {
  static FileStamp of(Path file) {
    try {
      BasicFileAttributes attributes = Files.readAttributes(file, BasicFileAttributes.class);
      return new FileStamp(attributes.lastModifiedTime(), attributes.fileKey(), attributes.size());
    } catch (IOException e) {
      return new FileStamp(null, null, 0);
    }
  }
}

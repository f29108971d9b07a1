package io.kvtier.tiers.ssd;

import io.kvtier.tiers.files.ByteSize;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;

/** Asked before space is taken: a disk that is full for a moment fails others for good. */
final class DiskRoom {
  private DiskRoom() {}

  /**
   * Refuses more than a disk has.
   *
   * @param taken of the bytes, those that are taken already
   * @throws IOException naming the directory and both sizes
   */
  static void require(Path directory, long bytes, long taken) throws IOException {
    FileStore disk = Files.getFileStore(directory);
    // A file system that tells no sizes is not asked; taking the space is the last word anyway.
    if (disk.getTotalSpace() > 0 && bytes - taken > disk.getUsableSpace()) {
      throw new IOException(
          "ssd.bytes is "
              + ByteSize.words(bytes)
              + ", but only "
              + ByteSize.words(disk.getUsableSpace() + taken)
              + " of disk space are available in '"
              + directory
              + "': lower ssd.bytes or choose another ssd.directory");
    }
  }
}

package io.kvtier.tiers.testing;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;

/** What becomes of files that a medium did not keep. */
public final class FileDamage {
  private FileDamage() {}

  /**
   * Damages a file.
   *
   * @param how {@code delete}, {@code cut} in the middle, or {@code flip} some bits there
   */
  public static void damage(String how, Path file) throws IOException {
    if (how.equals("delete")) {
      Files.delete(file);
      return;
    }
    try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
      long middle = bytes.length() / 2;
      if (how.equals("cut")) {
        bytes.setLength(middle);
      } else {
        bytes.seek(middle);
        int old = bytes.read();
        bytes.seek(middle);
        bytes.write(old ^ 0x55);
      }
    }
  }
}

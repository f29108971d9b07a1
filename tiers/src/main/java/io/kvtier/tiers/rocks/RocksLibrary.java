package io.kvtier.tiers.rocks;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.rocksdb.NativeLibraryLoader;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/** RocksDB's native library, and its errors in words. */
public final class RocksLibrary {
  private RocksLibrary() {}

  /** Loads the library, once a process. */
  public static void load() {
    Loaded.touch();
  }

  /** What an error says; its status too, where the message leaves it out. */
  public static String describe(RocksDBException error) {
    Status status = error.getStatus();
    String message = String.valueOf(error.getMessage());
    return status == null || message.contains(status.getCodeString())
        ? message
        : message + " (" + status.getCodeString() + ")";
  }

  private static final class Loaded {
    static {
      // What lies in java.library.path is taken from there. By itself RocksDB unpacks its library
      // into a file that is left behind when the process is killed, a new one at each start. Once
      // mapped, the file need have no name.
      try {
        Path unpacked = Files.createTempDirectory("kvtier-rocksdb");
        try {
          NativeLibraryLoader.getInstance().loadLibrary(unpacked.toString());
        } finally {
          try (var files = Files.list(unpacked)) {
            for (Path file : files.toList()) {
              Files.delete(file);
            }
          }
          Files.delete(unpacked);
        }
      } catch (IOException e) {
        throw new UncheckedIOException(
            "RocksDB's library can't be unpacked in java.io.tmpdir '"
                + System.getProperty("java.io.tmpdir")
                + "': "
                + e.getMessage(),
            e);
      }
      RocksDB.loadLibrary();
    }

    static void touch() {}
  }
}

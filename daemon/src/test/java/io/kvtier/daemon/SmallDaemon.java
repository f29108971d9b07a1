package io.kvtier.daemon;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The settings of a daemon that takes little of the machine, for tests with a whole one. */
public final class SmallDaemon {
  private SmallDaemon() {}

  /**
   * Settings without an SSD tier.
   *
   * @param more settings, which come last and so win
   */
  public static List<String> settings(Path folder, String... more) {
    Stream<String> common =
        Stream.of(
            "socket.path=" + folder.resolve("kvtier.sock"),
            "host.bytes=16MiB",
            "host.keep=0",
            "host.slab_bytes=4MiB",
            "ssd.bytes=0",
            "limits.blocks=10000");
    return Stream.concat(common, Stream.of(more)).toList();
  }

  /** The same with four files of an SSD tier. */
  public static List<String> withSsd(Path folder, String... more) {
    Stream<String> ssd =
        Stream.of(
            "ssd.bytes=32MiB", "ssd.file_bytes=8MiB", "ssd.directory=" + folder.resolve("ssd"));
    return settings(folder, Stream.concat(ssd, Stream.of(more)).toArray(String[]::new));
  }
}

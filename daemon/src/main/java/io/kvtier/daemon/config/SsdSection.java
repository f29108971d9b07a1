package io.kvtier.daemon.config;

import io.kvtier.protocol.SocketPaths;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.ssd.SsdEngine;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Reads the keys that begin with {@code ssd}: the SSD tier. */
final class SsdSection {
  private static final long FILE_BYTES_MIN = 1L << 20;

  private final KeyReader keys;

  SsdSection(KeyReader keys) {
    this.keys = keys;
  }

  /** Reads and checks the keys. */
  KvtierdConfig.SsdConfig read() {
    long file = keys.size("ssd.file_bytes", FILE_BYTES_MIN, 1L << 40);
    long bytes = keys.size("ssd.bytes", 0, 1L << 50);
    keys.requireMultiple("ssd.file_bytes", file, 4096, "4KiB");
    keys.requireMultiple("ssd.bytes", bytes, file, "ssd.file_bytes");
    List<Path> directories = new ArrayList<>();
    for (String directory : keys.list("ssd.directory")) {
      directories.add(keys.path("ssd.directory", directory));
    }
    if (directories.isEmpty()) {
      directories.add(SocketPaths.defaultDataDirectory().resolve("ssd"));
    }
    keys.require(
        "ssd.directory",
        bytes == 0
            || directories.size() <= bytes / file
            || keys.isMistaken("ssd.bytes")
            || keys.isMistaken("ssd.file_bytes"),
        "at most one directory for each file of ssd.file_bytes");
    keys.require(
        "ssd.directory",
        directories.stream().map(one -> one.toAbsolutePath().normalize()).distinct().count()
            == directories.size(),
        "each directory once");
    SsdEngine engine = keys.get("ssd.engine", SsdEngine::of, "an engine");
    keys.require(
        "ssd.bytes",
        engine != SsdEngine.ROCKSDB || bytes == 0 || bytes / file >= 8L * directories.size(),
        "0, or at least 8 times ssd.file_bytes for each directory where ssd.engine is rocksdb");
    return new KvtierdConfig.SsdConfig(
        new KvtierdConfig.SsdSpace(bytes, List.copyOf(directories), file),
        keys.policy("ssd.policy"),
        keys.admission("ssd.admission"),
        new KvtierdConfig.SsdWriting(
            engine,
            keys.get(
                "ssd.codec", BlockCodecs::create, "none, zstd or planes, with /LEVEL if wanted"),
            keys.get("ssd.durability", SsdSection::survivesPowerLoss, "kill or power")),
        new KvtierdConfig.SsdRates(
            keys.size("ssd.scrub_bytes_per_second", 0, 1L << 40),
            keys.size("ssd.write_bytes_per_day", 0, 1L << 60)),
        new KvtierdConfig.SsdPipeline(
            keys.number("ssd.threads", 1, 256), keys.number("ssd.queue_depth", 1, 65536)));
  }

  private static boolean survivesPowerLoss(String text) {
    return switch (text) {
      case "kill" -> false;
      case "power" -> true;
      default -> throw new IllegalArgumentException();
    };
  }
}

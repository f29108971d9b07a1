package io.kvtier.daemon.config;

import java.nio.file.Path;

/** Reads the keys that begin with {@code host}: the host memory. */
final class HostSection {
  private static final long SLAB_BYTES_MIN = 1L << 20;

  private final KeyReader keys;

  HostSection(KeyReader keys) {
    this.keys = keys;
  }

  /** Reads and checks the keys. */
  KvtierdConfig.HostConfig read() {
    long slab = keys.size("host.slab_bytes", SLAB_BYTES_MIN, 1L << 40);
    long bytes = keys.size("host.bytes", 0, 1L << 50);
    keys.requireMultiple("host.slab_bytes", slab, 4096, "4KiB");
    // 0 bytes are refused, although 0 is a multiple.
    keys.requireMultiple("host.bytes", Math.max(1, bytes), slab, "host.slab_bytes");
    boolean hugePages = keys.flag("host.huge_pages");
    boolean usesNuma = keys.autoOrOff("host.numa");
    String policy = keys.policy("host.policy");
    double free = keys.get("host.free_target", Double::parseDouble, "a fraction such as 0.02");
    keys.require("host.free_target", free >= 0 && free <= 0.25, "0 to 0.25");
    long keep = keys.durationOrZero("host.keep", "10min");
    Path directory = keys.get("host.directory", Path::of, "a path");
    KvtierdConfig.HostLedger ledger =
        keys.get("host.ledger", HostSection::hostLedger, "mapped or chronicle");
    return new KvtierdConfig.HostConfig(
        new KvtierdConfig.HostMemory(bytes, slab, hugePages, usesNuma),
        policy,
        free,
        new KvtierdConfig.HostKeeping(keep, directory, ledger));
  }

  private static KvtierdConfig.HostLedger hostLedger(String text) {
    return switch (text) {
      case "mapped" -> KvtierdConfig.HostLedger.MAPPED;
      case "chronicle" -> KvtierdConfig.HostLedger.CHRONICLE;
      default -> throw new IllegalArgumentException();
    };
  }
}

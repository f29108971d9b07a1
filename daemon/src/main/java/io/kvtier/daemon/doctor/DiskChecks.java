package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.DiskShare;
import io.kvtier.daemon.config.KvtierdConfig.SsdConfig;
import io.kvtier.protocol.linux.DirectFile;
import io.kvtier.protocol.linux.IoUring;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.ssd.SsdEngine;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Checks each directory of the SSD tier, and how the directories are read and written. */
final class DiskChecks {
  private static final int PROBE_BYTES = 1 << 16;

  private final SsdConfig config;
  private final boolean isRunning;

  /**
   * Checks of a tier.
   *
   * @param isRunning whether the daemon of this configuration runs, and has taken its space
   */
  DiskChecks(SsdConfig config, boolean isRunning) {
    this.config = config;
    this.isRunning = isRunning;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    findings.add(ioUring());
    for (Path directory : config.space().directories()) {
      findings.add(directIo(directory));
    }
    DiskShare.of(config).forEach(share -> findings.add(space(share)));
    return findings;
  }

  private Finding ioUring() {
    IoUring.Availability found = IoUring.probe();
    String cure =
        "use Linux 5.10 or newer, sysctl kernel.io_uring_disabled=0, and a container profile that"
            + " allows io_uring_setup; or set ssd.engine to pread";
    if (found.isUsable()) {
      return Finding.pass(
          "io_uring", "it can be used; ssd.engine is " + name(config.writing().engine()));
    }
    return config.writing().engine() == SsdEngine.IO_URING
        ? Finding.fail("io_uring", found.reason(), cure)
        : Finding.warn(
            "io_uring",
            found.reason() + "; blocking calls are used instead, which are slower",
            cure);
  }

  private static String name(SsdEngine engine) {
    return engine.toString();
  }

  private Finding directIo(Path directory) {
    String check = "direct IO";
    Path existing = DiskShare.existing(directory);
    if (existing == null || !Files.isDirectory(existing) || !Files.isWritable(existing)) {
      return Finding.fail(
          check,
          "'" + (existing == null ? directory : existing) + "' can't be written to by this user",
          "chown it to the daemon's user, mount it for writing, or choose another ssd.directory");
    }
    Path probe = existing.resolve(".kvtier-doctor-" + ProcessHandle.current().pid());
    try (Arena arena = Arena.ofConfined()) {
      boolean direct;
      try (DirectFile file = DirectFile.open(probe, PROBE_BYTES)) {
        direct = file.isDirect();
        MemorySegment header =
            arena.allocate(DirectFile.ALIGNMENT_BYTES, DirectFile.ALIGNMENT_BYTES);
        MemorySegment body = arena.allocate(DirectFile.ALIGNMENT_BYTES, DirectFile.ALIGNMENT_BYTES);
        body.fill((byte) 7);
        file.write(0, header, body);
        body.fill((byte) 0);
        file.read(0, header, body);
        if (body.get(ValueLayout.JAVA_BYTE, 0) != 7) {
          return Finding.fail(
              check,
              "'" + existing + "' gave other bytes back than were written",
              "look at the kernel's log, and replace the device");
        }
      } finally {
        Files.deleteIfExists(probe);
      }
      return direct
          ? Finding.pass(check, "'" + existing + "' takes it")
          : Finding.warn(
              check,
              "'" + existing + "' does not take it: reads and writes go through the page cache",
              "use a directory on ext4 or XFS of the device itself, no tmpfs or overlay");
    } catch (IOException e) {
      return Finding.fail(
          check,
          "'" + existing + "' can't be used: " + e.getMessage(),
          "free space there, mount it for writing, or choose another ssd.directory");
    }
  }

  private Finding space(DiskShare share) {
    String check = "disk space";
    try {
      long usable = share.store().getUsableSpace();
      long taken = share.directories().stream().mapToLong(DiskChecks::taken).sum();
      String what =
          "'"
              + share.existing()
              + "' has "
              + ByteSize.words(usable)
              + " free"
              + (taken > 0 ? ", and " + ByteSize.words(taken) + " taken by the tier" : "")
              + "; the tier's share is "
              + ByteSize.words(share.bytes())
              + (share.directories().size() > 1
                  ? ", in " + share.directories().size() + " directories"
                  : "");
      if (share.store().getTotalSpace() > 0 && share.bytes() > usable + taken && !isRunning) {
        return Finding.fail(
            check, what, "lower ssd.bytes, free space, or choose another ssd.directory");
      }
      return Finding.pass(check, what);
    } catch (IOException e) {
      return Finding.warn(check, "'" + share.existing() + "' tells no size: " + e.getMessage(), "");
    }
  }

  private static long taken(Path directory) {
    long bytes = 0;
    if (Files.isDirectory(directory)) {
      try (var files = Files.newDirectoryStream(directory)) {
        for (Path file : files) {
          bytes += Files.isRegularFile(file) ? Files.size(file) : 0;
        }
      } catch (IOException e) {
        return bytes;
      }
    }
    return bytes;
  }
}

package io.kvtier.daemon.config;

import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.gpu.EncodingMode;
import java.time.Duration;

/** Reads the daemon's use of the machine: {@code gpu}, {@code copy} and {@code limits}. */
final class ResourceSections {
  /** Blocks from a GPU need several threads; the engine on this machine needs the other cores. */
  private static final int COPY_THREADS_AUTO =
      Math.clamp(Runtime.getRuntime().availableProcessors() * 2 / 3, 1, 12);

  private static final long RETENTION_NS_MAX = Duration.ofDays(30).toNanos();

  private final KeyReader keys;

  ResourceSections(KeyReader keys) {
    this.keys = keys;
  }

  /** Copies to and from GPUs. */
  KvtierdConfig.GpuConfig gpu() {
    CopyOptions usual = CopyOptions.DEFAULT;
    // Each of the two directions has its own slots.
    int slots = 2 * usual.slots();
    long staging = keys.size("gpu.staging_bytes", (long) slots << 16, (long) slots << 28);
    keys.requireMultiple("gpu.staging_bytes", staging, (long) slots << 12, "8 pages");
    return new KvtierdConfig.GpuConfig(
        keys.autoOrOff("gpu.enabled"),
        new CopyOptions(
            usual.slots(),
            (int) (staging / slots),
            usual.slotRuns(),
            keys.number("gpu.thread_blocks", 1, 1024),
            keys.number("gpu.encoding_thread_blocks", 1, 1024),
            usual.writeBlocks(),
            usual.readBlocks(),
            usual.depth()),
        keys.get("gpu.encode", ResourceSections::encodingMode, "always or auto"),
        keys.flag("gpu.restart"));
  }

  private static EncodingMode encodingMode(String text) {
    return switch (text) {
      case "always" -> EncodingMode.ALWAYS;
      case "auto" -> EncodingMode.AUTO;
      default -> throw new IllegalArgumentException(text);
    };
  }

  /** The pipeline that makes checksums. */
  KvtierdConfig.CopyConfig copy() {
    return new KvtierdConfig.CopyConfig(
        copyThreads(),
        keys.number("copy.queue_depth", 1, 65536),
        (int) keys.size("copy.inline_bytes", 0, 1L << 30));
  }

  /** The limits of the index and of sessions. */
  KvtierdConfig.LimitsConfig limits() {
    long lease = keys.duration("limits.lease");
    long leaseMax = keys.duration("limits.lease_max");
    double retained = keys.get("limits.retained", Double::parseDouble, "a fraction such as 0.25");
    keys.require("limits.retained", retained >= 0 && retained <= 0.9, "0 to 0.9");
    long retentionMax = keys.duration("limits.retention_max");
    keys.require(
        "limits.retention_max",
        retentionMax > 0 && retentionMax <= RETENTION_NS_MAX,
        "more than 0, at most 720h");
    long reservation = keys.duration("limits.reservation");
    long deadline = keys.duration("limits.deadline");
    long deadlineMax = keys.duration("limits.deadline_max");
    keys.requireAtMost("limits.lease", lease, "limits.lease_max", leaseMax);
    keys.requireAtMost("limits.deadline", deadline, "limits.deadline_max", deadlineMax);
    return new KvtierdConfig.LimitsConfig(
        keys.number("limits.blocks", 64, 1 << 27),
        keys.size("limits.annotation_bytes", 0, 1L << 36) & -4096L,
        retained,
        new KvtierdConfig.SessionLimits(
            keys.number("limits.sessions", 1, 1 << 16),
            keys.size("limits.ring_bytes", 1 << 20, 1L << 40)),
        new KvtierdConfig.OperationLimits(
            keys.number("limits.operations", 1, 1 << 16),
            keys.number("limits.operations_per_session", 1, 1 << 16),
            keys.number("limits.holds", 64, 1 << 24),
            keys.number("limits.holds_per_session", 1, 1 << 24)),
        new KvtierdConfig.TimeLimits(
            lease,
            leaseMax,
            retentionMax,
            reservation == 0 ? lease : reservation,
            deadline,
            deadlineMax));
  }

  private int copyThreads() {
    int threads =
        keys.get(
            "copy.threads",
            text -> text.equals("auto") ? COPY_THREADS_AUTO : Integer.parseInt(text),
            "auto or a whole number");
    keys.require("copy.threads", threads >= 1 && threads <= 256, "auto, or a number from 1 to 256");
    return threads;
  }
}

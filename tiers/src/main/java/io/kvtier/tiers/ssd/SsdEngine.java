package io.kvtier.tiers.ssd;

import io.kvtier.protocol.linux.IoUring;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.transfer.LastLeg;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.ThreadedPipeline;
import java.io.IOException;
import java.util.Locale;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** How the SSD tier reads and writes. */
public enum SsdEngine {
  /** io_uring where it can be used, else pread. */
  AUTO,
  /** One io_uring on one thread. */
  IO_URING,
  /** Threads with a blocking call each. */
  PREAD,
  /** Threads with a blocking call each, over RocksDB. */
  ROCKSDB;

  /**
   * A pipeline that runs.
   *
   * @param engine which it is: never {@link #AUTO}
   * @param reason one line that says why {@link #AUTO} chose as it did; empty where the engine was
   *     asked for
   */
  public record Started(Pipeline pipeline, SsdEngine engine, String reason) {}

  /**
   * The parts of a pipeline.
   *
   * @param name of its threads
   * @param device of files, or of RocksDB for {@link #ROCKSDB}
   * @param codec encodes the blocks of stores
   * @param lastLeg the next step of stores; null if there is none
   * @param threads of {@link #PREAD} and {@link #ROCKSDB}
   * @param depth the most transfers in flight
   */
  public record Parts(
      String name,
      SlotDevice device,
      BlockCodec codec,
      @Nullable LastLeg lastLeg,
      int threads,
      int depth,
      SsdListeners listeners) {}

  /**
   * The engine of that name, as it stands in a configuration: {@code auto, io_uring, pread,
   * rocksdb}.
   */
  public static SsdEngine of(String name) {
    for (SsdEngine engine : values()) {
      if (engine.toString().equals(name)) {
        return engine;
      }
    }
    throw new IllegalArgumentException(
        "'" + name + "' is no SSD engine; expected auto, io_uring, pread or rocksdb");
  }

  /** The name in a configuration. */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }

  /**
   * Starts a pipeline.
   *
   * @throws IOException with the reason in words and what to do, where this engine can't be had
   */
  public Started start(Parts parts) throws IOException {
    return start(parts, IoUring::probe);
  }

  Started start(Parts parts, Supplier<IoUring.Availability> probe) throws IOException {
    if (this == PREAD || this == ROCKSDB) {
      return new Started(threaded(parts), this, "");
    }
    IoUring.Availability ring = probe.get();
    if (this == IO_URING) {
      if (!ring.isUsable()) {
        throw new IOException(
            "ssd.engine is io_uring, which can't be used here: "
                + ring.reason()
                + "; or set ssd.engine to auto or pread");
      }
      return new Started(uring(parts), IO_URING, "");
    }
    if (!ring.isUsable()) {
      return fallBack(parts, ring.reason());
    }
    try {
      return new Started(uring(parts), IO_URING, "io_uring can be used here");
    } catch (IOException e) {
      return fallBack(parts, String.valueOf(e.getMessage()));
    }
  }

  private static Started fallBack(Parts parts, String reason) {
    return new Started(threaded(parts), PREAD, "io_uring can't be used here: " + reason);
  }

  private static Pipeline uring(Parts parts) throws IOException {
    if (!(parts.device instanceof FileDevice files)) {
      throw new IllegalArgumentException("io_uring works on files, not on " + parts.device);
    }
    return new UringPipeline(
        parts.name, parts.depth, files, parts.codec, parts.lastLeg, parts.listeners);
  }

  private static Pipeline threaded(Parts parts) {
    return new ThreadedPipeline(
        parts.name,
        parts.threads,
        parts.depth,
        new SsdLeg(parts.device, parts.codec, parts.listeners.troubles()),
        parts.lastLeg,
        parts.listeners.finishedBell(),
        parts.listeners.defect());
  }
}

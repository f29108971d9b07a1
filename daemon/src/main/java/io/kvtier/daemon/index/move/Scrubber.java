package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.transfer.LowerMoves;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Reads the blocks of a lower tier in the background, at a bounded rate, so that damage is found
 * before a client needs the bytes. It reads one block at a time, into memory of its own.
 */
final class Scrubber {
  /** Maximum time for which an unused rate is saved up. */
  private static final long BURST_NS = 250_000_000;

  private static final int LOOKS_MAX = 1024;

  /**
   * The cost of a look at a record, in bytes of the rate. A tier with few blocks needs many looks.
   */
  private static final int LOOK_BYTES = 64;

  /** The cost of a small read, in bytes of the rate: threads wake up for it as for a large one. */
  private static final int READ_BYTES_MIN = 64 << 10;

  private static final int PAGE = 4096;

  private final Directory directory;
  private final ResidentTier tier;
  private final LowerMoves mover;
  private long bytesPerSecond;
  private double bytesPerNs;
  private MemorySegment memory = MemorySegment.NULL;
  private int cursor;
  private boolean isReading;
  private double bytes;
  private long lastNs = Long.MIN_VALUE;

  /**
   * A scrubber at the beginning.
   *
   * @param bytesPerSecond 0: nothing is read
   */
  Scrubber(Directory directory, ResidentTier tier, LowerMoves mover, long bytesPerSecond) {
    this.directory = directory;
    this.tier = tier;
    this.mover = mover;
    change(bytesPerSecond);
  }

  /** Changes the rate. */
  final void change(long bytesPerSecond) {
    this.bytesPerSecond = bytesPerSecond;
    bytesPerNs = bytesPerSecond / 1e9;
  }

  /** The rate. */
  long bytesPerSecond() {
    return bytesPerSecond;
  }

  /** Whether there is something to read, and a rate to read it at. */
  boolean isActive() {
    return bytesPerNs > 0 && tier.resident() > 0;
  }

  /** Begins to read the next block, when it is time. */
  void advance(long nowNs) {
    if (!isActive()) {
      return;
    }
    double elapsed = lastNs == Long.MIN_VALUE ? 0 : Math.max(0, nowNs - lastNs);
    bytes = Math.min(BURST_NS * bytesPerNs, bytes + elapsed * bytesPerNs);
    lastNs = nowNs;
    if (isReading || bytes <= 0) {
      return;
    }
    for (int i = 0; i < LOOKS_MAX && bytes > 0; i++) {
      bytes -= LOOK_BYTES;
      int block = cursor;
      cursor = cursor + 1 >= directory.highWater() ? 0 : cursor + 1;
      if (block < directory.highWater()
          && directory.isUsed(block)
          && tier.isResident(block)
          && directory.uses(block) == 0) {
        int length = tier.payloadBytes(block);
        isReading = mover.scrub(block, tier.number(), memory(length));
        bytes -= isReading ? Math.max(length, READ_BYTES_MIN) : 0;
        return;
      }
    }
  }

  private MemorySegment memory(int length) {
    if (memory.byteSize() < length) {
      memory = Arena.ofAuto().allocate(length, PAGE);
    }
    return memory;
  }

  /** The block is read. */
  void finished() {
    isReading = false;
  }
}

package io.kvtier.tiers.node;

import java.util.concurrent.TimeUnit;

/**
 * The measured speed of one node: the latency until a block that was asked for begins to come, and
 * the time for each byte. Blocks that come alone tell the latency. Blocks that follow one another
 * on a connection tell the time for each byte. For any thread.
 */
public final class PeerSpeed {
  /** The assumed time for a byte of a node that is not measured, ns: 8 Gbit/s. */
  private static final double ASSUMED_NS_PER_BYTE = 1;

  /** The weight of a new measurement. */
  private static final double WEIGHT = 0.2;

  /** After this time a measurement says nothing any more: the node is tried again. */
  private static final long STALE_NS = TimeUnit.SECONDS.toNanos(30);

  private boolean isMeasured;
  private double latencyNs;

  /** 0: no block has come. */
  private double nsPerByte;

  private long measuredNs;

  /**
   * A block came.
   *
   * @param elapsedNs since it was asked for, or since the block before it on the connection had
   *     come, if that was later
   * @param isFollowing whether it followed that block
   */
  synchronized void delivered(int length, long elapsedNs, boolean isFollowing, long nowNs) {
    double perByte = (double) Math.max(1, elapsedNs) / length;
    boolean isFirst = !isKnown(nowNs);
    if (isFirst) {
      latencyNs = 0;
    }
    if (isFirst || nsPerByte == 0) {
      nsPerByte = perByte;
    } else if (isFollowing || perByte < nsPerByte) {
      nsPerByte += WEIGHT * (perByte - nsPerByte);
    }
    if (!isFollowing) {
      latencyNs += WEIGHT * (Math.max(0, elapsedNs - (double) length * nsPerByte) - latencyNs);
    }
    isMeasured = true;
    measuredNs = nowNs;
  }

  /** A block had not come after a time. */
  synchronized void late(long elapsedNs, long nowNs) {
    if (!isKnown(nowNs)) {
      latencyNs = 0;
      nsPerByte = 0;
    }
    latencyNs = Math.max(latencyNs, (double) elapsedNs);
    isMeasured = true;
    measuredNs = nowNs;
  }

  /** Whether there is a measurement that is not too old. */
  synchronized boolean isKnown(long nowNs) {
    return isMeasured && nowNs - measuredNs < STALE_NS;
  }

  /** The time until a block begins to come, ns; 0 before the first measurement. */
  public synchronized double latencyNs() {
    return latencyNs;
  }

  /** The time for a byte, ns; assumed before the first measurement. */
  public synchronized double nsPerByte() {
    return nsPerByte == 0 ? ASSUMED_NS_PER_BYTE : nsPerByte;
  }

  /** Whether anything was measured. */
  public synchronized boolean isMeasured() {
    return isMeasured && nsPerByte > 0;
  }

  /** How long some bytes would take, ns. */
  synchronized long expectedNs(long bytes) {
    return (long) (latencyNs + (double) bytes * nsPerByte());
  }
}

package io.kvtier.client.internal.local;

/**
 * How much of a put is still to be copied when the daemon is told that a commit is coming: as much
 * as is copied while it wakes up, by the speed of the last copies.
 *
 * <p>Any threads, without a lock: a lost update makes one announcement come sooner or later.
 */
final class Announcing {
  /** A sleeping daemon takes 30 to 80 us to wake up, and then spins for 100 for what is coming. */
  static final long AHEAD_NS = 80_000;

  static final long BYTES_FIRST = 512L << 10;
  static final long BYTES_MIN = 128L << 10;
  static final long BYTES_MAX = 4L << 20;

  /** Copies of so much tell how fast copies are. */
  static final long TELLING_BYTES_MIN = 1L << 20;

  private static final int REMEMBERED = 3;

  private volatile long aheadBytes = BYTES_FIRST;

  long aheadBytes() {
    return aheadBytes;
  }

  /** So much was copied at a stretch. */
  void copied(long bytes, long tookNs) {
    if (bytes >= TELLING_BYTES_MIN && tookNs > 0) {
      long now = bytes * AHEAD_NS / tookNs;
      aheadBytes =
          Math.clamp((REMEMBERED * aheadBytes + now) / (REMEMBERED + 1), BYTES_MIN, BYTES_MAX);
    }
  }
}

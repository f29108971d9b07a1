package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/**
 * Blocks leased for reading in place. Each view is valid until the leases are closed or have ended,
 * whichever comes first: what was read counts only when {@link #hasEnded} is still false after the
 * reading, and, for a block that {@link #mustVerify}, when {@link #verify(int)} is true then. Close
 * it, also when nothing was granted.
 *
 * <p>The views are thread-safe to read. Memory stays mapped until the leases are closed, even after
 * the daemon's death.
 */
public interface Leases extends AutoCloseable {
  /** OK when the operation was carried out, whatever its blocks say; otherwise why not. */
  Status status();

  /** Why the operation was not carried out, in words. */
  String detail();

  /** The blocks' outcomes; OK: leased. */
  Blocks blocks();

  /** How many blocks were asked for. */
  int count();

  /** How many are leased. */
  int granted();

  Status status(int index);

  /** A leased block's bytes, read-only. */
  MemorySegment segment(int index);

  /** A leased block's bytes, read-only. */
  ByteBuffer buffer(int index);

  /** The CRC32C that the daemon made of a leased block's bytes. */
  int checksum(int index);

  /** Whether another living process was once allowed to write where the block is. */
  boolean mustVerify(int index);

  /** When the leases end, on the clock of {@link System#nanoTime}. */
  long endNs();

  /** Whether what is read now no longer counts. */
  boolean hasEnded();

  /**
   * Whether a leased block's bytes match their checksum. Where they do not, the release tells the
   * daemon, which looks for itself.
   */
  boolean verify(int index);

  /** Whether all leased blocks match their checksums, and the leases had not ended by then. */
  boolean verify();

  /** As the other, with the timeout that the leases were acquired with. */
  BatchResult release();

  /**
   * Ends the leases and waits for the daemon's word.
   *
   * @param releaseOptions of which the timeout counts
   * @return per lease granted, in order: OK, or STALE where it had ended before
   */
  BatchResult release(Options releaseOptions);

  /** Ends the leases without waiting. */
  @Override
  void close();
}

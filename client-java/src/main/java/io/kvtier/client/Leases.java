package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/**
 * Blocks leased for reading in place. Close the leases, also when nothing was granted.
 *
 * <p>The leases can end before they are closed. Bytes that were read count only on these
 * conditions:
 *
 * <ul>
 *   <li>{@link #hasEnded} is still false after the reading.
 *   <li>For a block that {@link #mustVerify}, {@link #verify(int)} is true after the reading.
 * </ul>
 *
 * <p>Several threads may read. The memory stays mapped until the leases are closed, also if the
 * daemon ends.
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

  /** How many blocks are leased. */
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

  /** Whether bytes that are read now no longer count. */
  boolean hasEnded();

  /**
   * Whether a leased block's bytes match their checksum. If they do not, the release tells the
   * daemon, which checks the block itself.
   */
  boolean verify(int index);

  /** Whether all leased blocks match their checksums, and the leases had not ended by then. */
  boolean verify();

  /** {@link #release(Options)} with the options of the acquire. */
  BatchResult release();

  /**
   * Ends the leases and waits for the daemon's answer.
   *
   * @param releaseOptions only the timeout counts
   * @return for each granted lease, in order: OK, or STALE if it had ended before
   */
  BatchResult release(Options releaseOptions);

  /** Ends the leases without waiting. */
  @Override
  void close();
}

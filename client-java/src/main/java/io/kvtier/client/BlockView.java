package io.kvtier.client;

import io.kvtier.protocol.TierId;
import java.lang.foreign.MemorySegment;

/**
 * A leased block. The object is used again for the next block. Bytes that were read count only when
 * {@link #hasEnded} is still false after the reading.
 */
public interface BlockView {
  /** The slab that the block is in, read-only. */
  MemorySegment slab();

  /** Where the block begins in the slab. */
  long offset();

  /** The block's bytes. */
  int length();

  /** The block alone, read-only. */
  MemorySegment segment();

  /** The tier that the block was found in. */
  TierId tier();

  /** The CRC32C that the daemon made of the bytes. */
  int checksum();

  /** Whether another living process was once allowed to write where the block is. */
  boolean mustVerify();

  /**
   * Whether the bytes match their checksum. If they do not, the release tells the daemon, which
   * checks the block itself.
   */
  boolean verify();

  /** Whether bytes that are read now no longer count. */
  boolean hasEnded();
}

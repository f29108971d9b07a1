package io.kvtier.daemon.index.transfer;

import io.kvtier.protocol.Status;

/**
 * How a transfer ended. One object serves all: it is good until the next is taken. Confined to the
 * index.
 */
public final class Settlement {
  /** What the transfer was for. */
  public enum Kind {
    /** The checksum of a block that a client wrote is made. */
    CHECKSUM,
    /** The checksum of a resident block was made again. */
    AUDIT,
    /** A read from a lower tier to the first is over. */
    LOAD,
    /** A block in a lower tier was read by the scrubber. */
    SCRUB,
    /** A write to a lower tier is over. */
    STORE,
    /** A read from a source to the first tier is over. */
    FETCH,
    /** A write of the first tier's copy to an object is over. */
    UPLOAD,
    /** A write of a lower tier's copy to an object is over. */
    SPILL
  }

  public Kind kind = Kind.CHECKSUM;
  public int block;
  public Status status = Status.OK;

  /** The source that was read; of no meaning where that was not a source. */
  public int source;

  /** The tier that was read; of no meaning where that was not a tier. */
  public int from;

  /** The tier that was written; of no meaning where that was not a tier. */
  public int to;

  /** Whether the tier that was read could be: else nothing was written. */
  public boolean isRead;

  /** Whether a store was made to free the slot that was read. */
  public boolean isEviction;

  public int checksum;

  /** The bytes that were written for the block's own. */
  public int writtenBytes;

  /** What an object has beside its block. */
  public byte[] annotation = {};

  public int annotationBytes;
}

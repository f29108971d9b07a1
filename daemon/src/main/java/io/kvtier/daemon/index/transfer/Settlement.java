package io.kvtier.daemon.index.transfer;

import io.kvtier.protocol.Status;

/**
 * How a transfer ended. One object serves all transfers: it is valid until the next settlement is
 * taken. Confined to the index.
 */
public final class Settlement {
  /** The purpose of the transfer. */
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

  /** The source that was read, after a FETCH. */
  public int source;

  /** The number of the tier that was read, after a LOAD, SCRUB, STORE or SPILL. */
  public int from;

  /** The number of the tier that was written, after a STORE. */
  public int to;

  /** Whether the read before a write succeeded; if not, nothing was written. */
  public boolean isRead;

  /** Whether a store was made to free the slot that was read. */
  public boolean isEviction;

  public int checksum;

  /** How many bytes were written to the device for the bytes of the block. */
  public int writtenBytes;

  /** The annotation that was read with a block. */
  public byte[] annotation = {};

  public int annotationBytes;
}

package io.kvtier.tiers.transfer;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;

/**
 * One block's way through one pipeline. Pooled by the index: filled there, worked on by one leg,
 * read there again; the queues between hand it over, so its fields need no ordering of their own.
 */
public final class Transfer {
  /** What to do. */
  public enum Kind {
    /** Make the checksum of bytes that a client wrote. */
    CHECKSUM,
    /** Write a block from its host slot to its SSD slot, if its bytes still match. */
    STORE,
    /** Read a block from its SSD slot into its host slot, and verify it. */
    LOAD
  }

  /** The transfer's place in the index's pool. */
  public final int poolIndex;

  /** The block's key, as it is stored with the bytes. */
  public final byte[] key = new byte[32];

  public Kind kind = Kind.CHECKSUM;
  public int block;
  public int keyBytes;
  public int group;

  /** The namespace's fingerprint, as it is stored with the bytes. */
  public long namespaceHigh;

  public long namespaceLow;

  /**
   * Where the block stands in its sequence: the fingerprint of the one before it, and its place.
   */
  public long parent;

  public int depth;

  /** Which store this is, counted over all starts of the daemon. */
  public long generation;

  /** 0 is the most urgent. */
  public int priority;

  public MemorySegment slab = MemorySegment.NULL;
  public long slabOffset;
  public int length;
  public int slotBytes;
  public int ssdRegion;
  public long ssdOffset;

  /** CRC32C of the bytes: a result of CHECKSUM, an expectation of the others. */
  public int checksum;

  /** The outcome: OK, CORRUPT or IO_ERROR. */
  public Status status = Status.OK;

  /** How long the leg took, in ns. */
  public long elapsedNs;

  /** Nothing to do yet. */
  public Transfer(int poolIndex) {
    this.poolIndex = poolIndex;
  }

  /** The block's bytes. */
  public MemorySegment bytes() {
    return slab.asSlice(slabOffset, length);
  }

  /** The whole slot, whose length suits direct IO. */
  public MemorySegment slot() {
    return slab.asSlice(slabOffset, slotBytes);
  }
}

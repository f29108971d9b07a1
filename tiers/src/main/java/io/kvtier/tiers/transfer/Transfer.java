package io.kvtier.tiers.transfer;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingErrors;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * One block's way through one pipeline. The index fills a transfer from its pool, one leg works on
 * it, and the index reads the result. Queues hand it over, so that its fields need no ordering of
 * their own.
 */
public final class Transfer {
  /** The work of a transfer. */
  public enum Kind {
    /** Make the checksum of bytes that a client or a GPU wrote. */
    CHECKSUM,
    /** Write a block from memory to a slot on a device, or to an object, if its bytes match. */
    STORE,
    /** Read a block from a slot on a device, or from an object, into memory, and verify it. */
    LOAD,
    /** Delete the rows of some slots from a device's ledger. */
    FORGET
  }

  private static final int PLACE_SHIFT = 12;
  private static final long[] NO_PLACES = {};
  private static final byte[] NOTHING = {};

  /** The transfer's place in the index's pool. */
  public final int poolIndex;

  /** The block's key, as it is stored with the bytes. */
  public final byte[] key = new byte[32];

  public Kind kind = Kind.CHECKSUM;
  public int block;
  public int keyBytes;
  public int group;

  /** The namespace: its number in this start of the daemon, and all that makes it. */
  public int namespaceId;

  public String namespaceText = "";

  /** The fingerprint of that text, as it is stored with the bytes. */
  public long namespaceHigh;

  public long namespaceLow;

  /** The fingerprint of the block before this one in its sequence. */
  public long parent;

  /** The block's place in its sequence, from 0. */
  public int depth;

  /** The annotation that is kept with the block: the first {@link #annotationBytes} of these. */
  public byte[] annotation = NOTHING;

  public int annotationBytes;

  /** The number of this store, counted over all starts of the daemon. */
  public long generation;

  /** The tenant whose share of the pipelines the transfer takes; used by the index only. */
  public int owner;

  /** 0 is the most urgent. */
  public int priority;

  public MemorySegment slab = MemorySegment.NULL;
  public long slabOffset;

  /** The lane of the slab: which NUMA node its bytes are on. */
  public int lane;

  public int length;
  public int slotBytes;

  /**
   * LOAD, and CHECKSUM as a check: how blocks of the namespace are encoded; null when they are not.
   * The length says which form the bytes have.
   */
  public @Nullable BlockEncoding encoding;

  /** CHECKSUM: parts of the block that are decoded to its slot first; null when all are there. */
  public @Nullable EncodedGranules rest;

  /**
   * CHECKSUM and STORE: where the errors of the bytes are added up, once their checksum is known;
   * null when they are not measured.
   */
  public @Nullable EncodingErrors errors;

  /** The device of a lower tier, and the region of the device. */
  public int device;

  public int region;
  public long offset;

  /** CRC32C of the bytes: a result of CHECKSUM, an expectation of the others. */
  public int checksum;

  /**
   * The outcome: OK, CORRUPT or IO_ERROR. A block that a node was going to have can also be a MISS
   * (the node does not get it), DEADLINE, CANCELLED (it was given up) or UNAVAILABLE (there is no
   * such node).
   */
  public Status status = Status.OK;

  /** For people: why an IO_ERROR happened, and what to do. */
  public String cause = "";

  /** STORE: how many bytes of the block went to the device, without padding and header. */
  public int writtenBytes;

  /** When the index handed the transfer over, CLOCK_MONOTONIC; used by the index only. */
  public long offeredNs;

  /** How long the leg took, in ns. */
  public long elapsedNs;

  /** FORGET: the places, and how many of them. */
  public final long[] places;

  public int placeCount;

  /**
   * LOAD of a block that a node is going to have: the CRC32C of the node's name or address, when
   * the block is given up, and in how many pieces it came.
   */
  public int node;

  public long deadlineNs;
  public int pieces;

  /** LOAD: the traced request that waits for the block, for another node; null if there is none. */
  public @Nullable TracedRequest request;

  /**
   * The block of a STORE will be deleted: its row must not be written. Or nobody waits for the
   * block of a LOAD any more that a node is going to have. The index sets this while another thread
   * works on the transfer.
   */
  public volatile boolean givenUp;

  /** A transfer without work. */
  public Transfer(int poolIndex) {
    this(poolIndex, NO_PLACES);
  }

  private Transfer(int poolIndex, long[] places) {
    this.poolIndex = poolIndex;
    this.places = places;
  }

  /** A transfer of {@link Kind#FORGET}, of no pool. */
  public static Transfer forget(int placesMax) {
    Transfer transfer = new Transfer(-1, new long[placesMax]);
    transfer.kind = Kind.FORGET;
    return transfer;
  }

  /** Sets the length of the annotation, which the caller then fills in. */
  public void annotate(int bytes) {
    if (annotation.length < bytes) {
      annotation = new byte[bytes];
    }
    annotationBytes = bytes;
  }

  /** The name of the block's place on its device, as in the device's ledger. */
  public long place() {
    return place(region, offset);
  }

  /**
   * The name of a place in a tier's directory.
   *
   * @param offset in the region, a multiple of 4 KiB
   */
  public static long place(int region, long offset) {
    return (long) region << 32 | offset >>> PLACE_SHIFT;
  }

  /** The region of a {@link #place}. */
  public static int regionOf(long place) {
    return (int) (place >>> 32);
  }

  /** The offset of a {@link #place} in its region. */
  public static long offsetOf(long place) {
    return (place & 0xffff_ffffL) << PLACE_SHIFT;
  }

  /** The block's bytes. */
  public MemorySegment bytes() {
    return slab.asSlice(slabOffset, length);
  }

  /** Measures the errors of the bytes, if they are to be measured. The bytes must be sound. */
  public void measureErrors() {
    if (errors != null) {
      errors.measure(bytes());
    }
  }

  /** The whole slot, whose length suits direct IO. */
  public MemorySegment slot() {
    return slab.asSlice(slabOffset, slotBytes);
  }
}

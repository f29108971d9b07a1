package io.kvtier.tiers.transfer;

import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;

/**
 * One block's way through one pipeline. The index fills a transfer from its pool, one leg works on
 * it, and the index reads the result. Queues hand it over, so that its fields need no ordering of
 * their own.
 */
public final class Transfer {
  /** What to do. */
  public enum Kind {
    /** Make the checksum of bytes that a client wrote. */
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

  /**
   * Where the block stands in its sequence: the fingerprint of the one before it, and its place.
   */
  public long parent;

  public int depth;

  /** What the client wants kept with the block: the first {@link #annotationBytes} of these. */
  public byte[] annotation = NOTHING;

  public int annotationBytes;

  /** Which store this is, counted over all starts of the daemon. */
  public long generation;

  /** Whose share of the pipelines it takes; the index's own affair. */
  public int owner;

  /** 0 is the most urgent. */
  public int priority;

  public MemorySegment slab = MemorySegment.NULL;
  public long slabOffset;
  public int length;
  public int slotBytes;

  /** The device of a lower tier, and the region of the device. */
  public int device;

  public int region;
  public long offset;

  /** CRC32C of the bytes: a result of CHECKSUM, an expectation of the others. */
  public int checksum;

  /** The outcome: OK, CORRUPT or IO_ERROR. */
  public Status status = Status.OK;

  /** For people: why it failed, and what to do; where the outcome is IO_ERROR. */
  public String cause = "";

  /** STORE: how many bytes went to the device for the block's own, padding and header aside. */
  public int writtenBytes;

  /** When it was handed over, as the index's round had it, CLOCK_MONOTONIC; the index's own. */
  public long offeredNs;

  /** How long the leg took, in ns. */
  public long elapsedNs;

  /** FORGET: the places, and how many of them. */
  public final long[] places;

  public int placeCount;

  /**
   * The block of a STORE is to go: no row shall be written of it. Set by the index while others
   * work on the transfer.
   */
  public volatile boolean givenUp;

  /** Nothing to do yet. */
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

  /** Makes room for an annotation of that many bytes, which the caller fills in. */
  public void annotate(int bytes) {
    if (annotation.length < bytes) {
      annotation = new byte[bytes];
    }
    annotationBytes = bytes;
  }

  /** Where a block stands on its device, as the device's directory names it. */
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

  /** The whole slot, whose length suits direct IO. */
  public MemorySegment slot() {
    return slab.asSlice(slabOffset, slotBytes);
  }
}

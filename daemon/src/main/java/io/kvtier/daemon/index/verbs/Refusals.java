package io.kvtier.daemon.index.verbs;

/**
 * Blocks of puts that were answered BUSY: how many, and for want of what. Confined to the index.
 */
public final class Refusals {
  /** What a put lacked. */
  public enum Lack {
    /** No slot of the first tier came free. */
    SLOT,
    /** The directory has no record for another block. */
    RECORD,
    /** The client holds as much as one may: a limit that an operator set. */
    SHARE_OF_HOLDS,
    /** All clients together hold as much as they may. */
    HOLD,
    /** Too many blocks are being copied from GPUs, or too many layers wait for one block. */
    DEVICE
  }

  private final long[] counts = new long[Lack.values().length];

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  void add(Lack lack) {
    counts[lack.ordinal()]++;
  }

  /** How many blocks were refused for want of something, since the start. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public long count(Lack lack) {
    return counts[lack.ordinal()];
  }
}

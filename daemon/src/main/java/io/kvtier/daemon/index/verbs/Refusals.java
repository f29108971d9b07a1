package io.kvtier.daemon.index.verbs;

/**
 * Counts of the blocks whose puts were answered BUSY, by what the puts lacked. Confined to the
 * index.
 */
public final class Refusals {
  /** The thing that a put lacked. */
  public enum Lack {
    /** No slot of the first tier came free. */
    SLOT,
    /** The directory has no record for another block. */
    RECORD,
    /** The client holds as many blocks as one client may: a limit that an operator set. */
    SHARE_OF_HOLDS,
    /** All clients together hold as many blocks as they may. */
    HOLD,
    /** Too many blocks are being copied from GPUs, or too many layers wait for one block. */
    DEVICE
  }

  private final long[] counts = new long[Lack.values().length];

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  void add(Lack lack) {
    counts[lack.ordinal()]++;
  }

  /** How many blocks were refused for one lack, since the start. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public long count(Lack lack) {
    return counts[lack.ordinal()];
  }
}

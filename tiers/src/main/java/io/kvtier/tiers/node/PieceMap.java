package io.kvtier.tiers.node;

import java.util.BitSet;

/**
 * Which pieces of a block have come. A piece is a range of the equal parts in which the block is
 * cut. A piece that comes twice counts once, so a block is whole only when each of its bytes has
 * come.
 */
public class PieceMap {
  private final BitSet arrived = new BitSet();

  /** In how many parts the block is cut; 0: that is not known yet. */
  private int units;

  /** No piece has come. */
  public PieceMap() {}

  /** Whether a piece is cut as those before it, and none of its parts has come. */
  protected boolean isNew(Messages.Piece piece) {
    int next = arrived.nextSetBit(piece.from());
    return (units == 0 || units == piece.units()) && (next < 0 || next >= piece.to());
  }

  /** All bytes of a piece have come. */
  protected void add(Messages.Piece piece) {
    units = piece.units();
    arrived.set(piece.from(), piece.to());
  }

  /** Whether all pieces have come. */
  protected boolean isWhole() {
    return units > 0 && arrived.cardinality() == units;
  }

  /** The first pieces that have not come, in words. */
  String missing() {
    if (units == 0) {
      return "no piece has come";
    }
    int from = arrived.nextClearBit(0);
    int next = arrived.nextSetBit(from);
    int to = next < 0 ? units : next;
    return "parts " + from + " to " + (to - 1) + " of " + units + " have not come";
  }
}

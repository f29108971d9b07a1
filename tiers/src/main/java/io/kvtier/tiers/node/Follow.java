package io.kvtier.tiers.node;

import io.kvtier.tiers.transfer.Transfer;

/** A block that another node is going to have, on its way here. Confined to its reader. */
final class Follow {
  final Transfer transfer;
  final long beganNs;
  final PieceMap pieces;

  /** Begins to wait for a block. */
  Follow(Transfer transfer, long nowNs, PieceMap pieces) {
    this.transfer = transfer;
    this.pieces = pieces;
    beganNs = nowNs;
  }

  /** Whether the block is given up: nobody waits for it, or its time is over. */
  boolean isOver(long nowNs) {
    return transfer.givenUp || nowNs - transfer.deadlineNs >= 0;
  }
}

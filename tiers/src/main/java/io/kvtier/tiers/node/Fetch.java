package io.kvtier.tiers.node;

import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.transfer.Transfer;

/** A block on its way from another node. Confined to its reader. */
final class Fetch {
  final Transfer transfer;
  final ObjectKey key;
  final long beganNs;

  /** When the block is given up; 0 while no node was asked. */
  long deadlineNs;

  /** The nodes that may have the block and were not asked yet, a bit each. */
  long candidates;

  /** When the node was asked that is asked now, ns. */
  long askedNs;

  /** Why the last node did not deliver; empty if it no longer had the block. */
  String trouble = "";

  boolean isCorrupt;

  Fetch(Transfer transfer, long nowNs) {
    this.transfer = transfer;
    key = ObjectKey.of(transfer);
    beganNs = nowNs;
  }
}

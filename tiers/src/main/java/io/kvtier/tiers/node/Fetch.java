package io.kvtier.tiers.node;

import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A block on its way from another node. Confined to its reader. */
final class Fetch {
  final Transfer transfer;
  final ObjectKey key;
  final long beganNs;

  /** When the block is given up; 0 while no node was asked. */
  long deadlineNs;

  /** The nodes that may have the block, as {@link Holders}. */
  long holders;

  /** The connections to the nodes that were asked. */
  final List<PeerLink> tried = new ArrayList<>(2);

  /** The connections to the nodes that were asked and have not answered. */
  final List<PeerLink> askedAt = new ArrayList<>(2);

  /** Whether bytes of the block arrive: one connection at a time writes the slot. */
  boolean isArriving;

  /** When another node is asked as well; {@link HedgeTimes#NEVER}: it is not. */
  long lateNs = HedgeTimes.NEVER;

  /** The node that was asked because another was late; null if none was. */
  @Nullable PeerLink second;

  /** Why the last node did not deliver; empty if it no longer had the block. */
  String trouble = "";

  boolean isCorrupt;

  Fetch(Transfer transfer, long nowNs) {
    this.transfer = transfer;
    key = ObjectKey.of(transfer);
    beganNs = nowNs;
  }
}

package io.kvtier.daemon.index.core;

import io.kvtier.protocol.TierId;
import io.kvtier.tiers.transfer.Transfer;

/**
 * Hears how transfers ended, for traces of the requests that wait for them, and when a block's
 * number means another block.
 */
public interface TransferWatch {
  /** Whether any request that is traced, or has an id, may want to hear of transfers. */
  boolean isInterested();

  /**
   * A transfer is over, which was handed over at {@link Transfer#offeredNs}.
   *
   * @param isAwaited whether requests that wait for the block wait for this transfer
   */
  void settled(Transfer transfer, TierId tier, boolean isAwaited);

  /** A block's record has come to its end: its number may become another block's. */
  void forgot(int block);
}

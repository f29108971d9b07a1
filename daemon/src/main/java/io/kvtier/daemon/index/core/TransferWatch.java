package io.kvtier.daemon.index.core;

import io.kvtier.protocol.TierId;
import io.kvtier.tiers.transfer.Transfer;

/**
 * Hears how transfers ended, for traces of the requests that wait for them. Also hears when the
 * number of a block becomes free for another block.
 */
public interface TransferWatch {
  /** Whether a request that is traced, or has an id, may wait for a transfer. */
  boolean isInterested();

  /** A read from a source begins: its {@link Transfer#request} is set. */
  void fetching(Transfer transfer);

  /**
   * A transfer is over. It was handed over at {@link Transfer#offeredNs}.
   *
   * @param isAwaited whether requests that wait for the block wait for this transfer
   */
  void settled(Transfer transfer, TierId tier, boolean isAwaited);

  /** A block's record has come to its end: its number may become another block's. */
  void forgot(int block);
}

package io.kvtier.daemon.index.core;

import io.kvtier.protocol.TierId;
import io.kvtier.tiers.transfer.Transfer;

/** Hears how transfers ended, for traces of the requests that wait for them. */
public interface TransferWatch {
  /** Whether any request that is traced, or has an id, may want to hear of transfers. */
  boolean isInterested();

  /**
   * A transfer is over, which was handed over at {@link Transfer#offeredNs}.
   *
   * @param isAwaited whether requests that wait for the block wait for this transfer
   */
  void settled(Transfer transfer, TierId tier, boolean isAwaited);
}

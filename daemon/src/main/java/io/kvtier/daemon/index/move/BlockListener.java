package io.kvtier.daemon.index.move;

import io.kvtier.protocol.Status;

/** Hears what becomes of blocks, on behalf of the requests that wait for them. */
public interface BlockListener {
  /**
   * The first copy became resident, or failed to: requests that wait for the block are answered.
   */
  void onFirstSettled(int block, Status status);

  /** A write to a tier below the first ended, well or not. */
  void onStoreSettled(int block, Status status);

  /** A block has left the directory: clients can no longer name it to end their pins. */
  void onForgotten(int block);
}

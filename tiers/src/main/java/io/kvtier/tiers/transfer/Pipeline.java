package io.kvtier.tiers.transfer;

import java.util.function.Consumer;

/**
 * A bounded queue of transfers and whatever carries them out. The index offers and collects; both
 * never block.
 */
public interface Pipeline extends AutoCloseable {
  /**
   * Hands a transfer over.
   *
   * @return false when the queue is full: nothing was taken
   */
  boolean offer(Transfer transfer);

  /** Gives every finished transfer back; returns how many there were. */
  int collect(Consumer<Transfer> finished);

  /** Whether {@link #collect} would find any. */
  boolean hasFinished();

  /** How many transfers were taken and not given back. */
  int inFlight();

  @Override
  void close();
}

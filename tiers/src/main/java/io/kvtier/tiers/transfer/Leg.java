package io.kvtier.tiers.transfer;

/** What a pipeline does with a transfer: the work itself, synchronous, safe for several threads. */
@FunctionalInterface
public interface Leg {
  /** Does the work and leaves the outcome in the transfer; throws nothing. */
  void run(Transfer transfer);
}

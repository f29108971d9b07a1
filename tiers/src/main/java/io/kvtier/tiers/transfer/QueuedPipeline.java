package io.kvtier.tiers.transfer;

import java.util.function.Consumer;

/** A pipeline whose way in and way back are {@link TransferQueues}; workers stand between. */
public abstract class QueuedPipeline implements Pipeline {
  /** The queues, from the end of the construction on. */
  protected abstract TransferQueues queues();

  @Override
  public final boolean offer(Transfer transfer) {
    return queues().offer(transfer);
  }

  @Override
  public final int collect(Consumer<Transfer> finished) {
    return queues().collect(finished);
  }

  @Override
  public final boolean hasFinished() {
    return queues().hasFinished();
  }

  @Override
  public final int inFlight() {
    return queues().inFlight();
  }
}

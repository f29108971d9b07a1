package io.kvtier.client.internal.local;

import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * The future of an operation. Cancelling it asks the daemon to give up, and gives back what is
 * granted all the same.
 */
final class OperationFuture<T> extends CompletableFuture<T> {
  private volatile @Nullable Runnable onCancel;

  /** Sets what a cancellation does besides. */
  void onCancel(Runnable action) {
    onCancel = action;
    if (isCancelled()) {
      action.run();
    }
  }

  void answer(T result) {
    if (!complete(result) && result instanceof Grant grant) {
      grant.close();
    }
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    boolean cancelled = super.cancel(mayInterruptIfRunning);
    Runnable action = onCancel;
    if (cancelled && action != null) {
      action.run();
    }
    return cancelled;
  }
}

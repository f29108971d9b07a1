package io.kvtier.tiers.object;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;

/** The calls of a store that are on their way, and the thread that ends them at their deadlines. */
final class StoreCalls implements AutoCloseable {
  private final Set<StoreCall> underWay = ConcurrentHashMap.newKeySet();
  private final ScheduledExecutorService timer;
  private volatile boolean closed;

  StoreCalls(String threadName) {
    ScheduledThreadPoolExecutor one =
        new ScheduledThreadPoolExecutor(
            1, task -> Thread.ofPlatform().daemon().name(threadName).unstarted(task));
    one.setRemoveOnCancelPolicy(true);
    timer = Executors.unconfigurableScheduledExecutorService(one);
  }

  /** A call that has not begun; it may have ended already. */
  StoreCall begin(long timeoutNs) {
    if (closed) {
      return StoreCall.of(new StoreResult.Unavailable("the store is closed"));
    }
    StoreCall call = new StoreCall(timer, timeoutNs);
    underWay.add(call);
    call.whenEnded(_ -> underWay.remove(call));
    if (closed) {
      call.end(new StoreResult.Unavailable("the store is closed"));
    }
    return call;
  }

  @Override
  public void close() {
    closed = true;
    for (StoreCall call : List.copyOf(underWay)) {
      call.end(new StoreResult.Unavailable("the store is closed"));
    }
    timer.shutdownNow();
  }
}

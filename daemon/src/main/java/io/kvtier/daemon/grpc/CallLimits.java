package io.kvtier.daemon.grpc;

import io.kvtier.daemon.index.Tenants;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * How many calls there may be at once, which bounds what they take of the heap. Each tenant has its
 * share: one whose calls take long does not keep others from calling. From any thread.
 */
final class CallLimits {
  private static final int CALLS_MAX = 1024;

  /** Get and Put: a Put may have a stream's window and a message in the heap. */
  private static final int BYTE_CALLS_MAX = 64;

  private final Tenants tenants;
  private final AtomicIntegerArray calls;
  private final AtomicIntegerArray byteCalls;

  CallLimits(Tenants tenants) {
    this.tenants = tenants;
    this.calls = new AtomicIntegerArray(tenants.count());
    this.byteCalls = new AtomicIntegerArray(tenants.count());
  }

  /** Counts a call, which must {@link #end}; false when there are too many. */
  boolean begin(int tenant, boolean carriesBytes) {
    boolean isTooMany = calls.getAndIncrement(tenant) >= tenants.shareOf(CALLS_MAX, tenant);
    return !(carriesBytes
            && byteCalls.getAndIncrement(tenant) >= tenants.shareOf(BYTE_CALLS_MAX, tenant))
        && !isTooMany;
  }

  void end(int tenant, boolean carriesBytes) {
    calls.getAndDecrement(tenant);
    if (carriesBytes) {
      byteCalls.getAndDecrement(tenant);
    }
  }
}

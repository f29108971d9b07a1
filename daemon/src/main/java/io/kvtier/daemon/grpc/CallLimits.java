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

  /** So many a tenant has in any case: engines get several blocks at once. */
  private static final int BYTE_CALLS_MIN = 8;

  private final Tenants tenants;
  private final AtomicIntegerArray calls;
  private final AtomicIntegerArray byteCalls;

  CallLimits(Tenants tenants) {
    this.tenants = tenants;
    this.calls = new AtomicIntegerArray(tenants.count());
    this.byteCalls = new AtomicIntegerArray(tenants.count());
  }

  /** Counts a call, which must {@link #end}; false, and nothing is counted, when it is too many. */
  boolean begin(int tenant, boolean carriesBytes) {
    if (!take(calls, tenant, tenants.shareOf(CALLS_MAX, tenant))) {
      return false;
    }
    int bytesMax = Math.max(BYTE_CALLS_MIN, tenants.shareOf(BYTE_CALLS_MAX, tenant));
    if (carriesBytes && !take(byteCalls, tenant, bytesMax)) {
      calls.getAndDecrement(tenant);
      return false;
    }
    return true;
  }

  private static boolean take(AtomicIntegerArray counts, int tenant, int max) {
    if (counts.getAndIncrement(tenant) < max) {
      return true;
    }
    counts.getAndDecrement(tenant);
    return false;
  }

  void end(int tenant, boolean carriesBytes) {
    calls.getAndDecrement(tenant);
    if (carriesBytes) {
      byteCalls.getAndDecrement(tenant);
    }
  }
}

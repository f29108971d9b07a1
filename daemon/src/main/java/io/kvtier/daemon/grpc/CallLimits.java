package io.kvtier.daemon.grpc;

import io.kvtier.daemon.index.core.Tenants;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * How many calls there may be at once, and answers that wait for their clients' end, which bounds
 * what they take of the heap. Each tenant has its share: one whose calls take long does not keep
 * others from calling. From any thread.
 */
final class CallLimits {
  private static final int CALLS_MAX = 1024;

  /** More calls, each the only one of its connection: busy connections keep no others out. */
  private static final int ONLY_CALLS_MAX = 128;

  /** Minimum of {@link #ONLY_CALLS_MAX} for a tenant with a small share. */
  private static final int ONLY_CALLS_MIN = 4;

  /** Get and Put: a Put may have a stream's window and a message in the heap. */
  private static final int BYTE_CALLS_MAX = 64;

  /** Where a tenant's share is less, so many, as engines get several blocks at once. */
  private static final int BYTE_CALLS_MIN = 8;

  /** If there are any left of these, beyond the shares of all. */
  private static final int BYTE_CALLS_COMMON = 32;

  /** A stream takes some 30 KiB for as long as its answer is held. */
  private static final int HELD_MAX = 1024;

  /** So many a tenant has in any case, which are few for all that there can be. */
  private static final int HELD_MIN = 16;

  private final Tenants tenants;
  private final AtomicIntegerArray calls;
  private final AtomicIntegerArray held;

  /** Guarded by itself, as {@link #commonTaken}. */
  private final int[] byteCalls;

  private int commonTaken;

  CallLimits(Tenants tenants) {
    this.tenants = tenants;
    this.calls = new AtomicIntegerArray(tenants.count());
    this.held = new AtomicIntegerArray(tenants.count());
    this.byteCalls = new int[tenants.count()];
  }

  /**
   * Counts a call, which must {@link #end}; false, and nothing is counted, when it is too many.
   *
   * @param isOnly whether its connection has no other call, and has taken all earlier answers
   */
  boolean begin(int tenant, boolean carriesBytes, boolean isOnly) {
    int max = tenants.shareOf(CALLS_MAX, tenant);
    if (isOnly) {
      max += Math.max(ONLY_CALLS_MIN, tenants.shareOf(ONLY_CALLS_MAX, tenant));
    }
    if (!take(calls, tenant, max)) {
      return false;
    }
    if (carriesBytes && !takeBytes(tenant)) {
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

  private boolean takeBytes(int tenant) {
    synchronized (byteCalls) {
      if (byteCalls[tenant] >= tenants.shareOf(BYTE_CALLS_MAX, tenant)) {
        if (byteCalls[tenant] >= BYTE_CALLS_MIN || commonTaken == BYTE_CALLS_COMMON) {
          return false;
        }
        commonTaken++;
      }
      byteCalls[tenant]++;
      return true;
    }
  }

  private void giveBytes(int tenant) {
    synchronized (byteCalls) {
      byteCalls[tenant]--;
      if (byteCalls[tenant] >= tenants.shareOf(BYTE_CALLS_MAX, tenant)) {
        commonTaken--;
      }
    }
  }

  /** What a call that carries bytes took is one's that does not. */
  void endBytes(int tenant) {
    giveBytes(tenant);
  }

  void end(int tenant, boolean carriesBytes) {
    calls.getAndDecrement(tenant);
    if (carriesBytes) {
      giveBytes(tenant);
    }
  }

  /**
   * Counts an answer that waits for its client's end, until {@link #endHold}; false, and nothing is
   * counted, when it is too many.
   */
  boolean hold(int tenant) {
    return take(held, tenant, Math.max(HELD_MIN, tenants.shareOf(HELD_MAX, tenant)));
  }

  void endHold(int tenant) {
    held.getAndDecrement(tenant);
  }
}

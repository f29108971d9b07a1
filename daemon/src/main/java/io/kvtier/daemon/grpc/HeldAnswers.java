package io.kvtier.daemon.grpc;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The answers of one connection that wait until its client has half-closed their calls: an earlier
 * one would have its stream reset. Nobody waits for ever, and each counts among those of a tenant.
 * Confined to an event loop.
 */
final class HeldAnswers {
  /** Of a connection on which nobody was let in; {@link FrontLoop} bounds how many these are. */
  static final int NOBODY = -1;

  private final CallLimits limits;
  private final Set<Held> all = Collections.newSetFromMap(new IdentityHashMap<>(0));

  HeldAnswers(CallLimits limits) {
    this.limits = limits;
  }

  /** One of them. */
  final class Held {
    private final Runnable breakOff;
    private final long sinceNs;
    private int tenant;

    private Held(int tenant, Runnable breakOff, long sinceNs) {
      this.tenant = tenant;
      this.breakOff = breakOff;
      this.sinceNs = sinceNs;
    }

    /** It has been given, or nobody waits for it any more. */
    void over() {
      if (all.remove(this) && tenant != NOBODY) {
        limits.endHold(tenant);
      }
    }
  }

  /**
   * Another one, which counts until it is {@link Held#over}; null, and it is not to be held, when
   * the tenant has too many.
   *
   * @param tenant whose it is, or {@link #NOBODY}
   * @param breakOff ends its call without it, and so has it be over
   */
  @Nullable Held add(int tenant, Runnable breakOff, long nowNs) {
    if (tenant != NOBODY && !limits.hold(tenant)) {
      return null;
    }
    Held held = new Held(tenant, breakOff, nowNs);
    all.add(held);
    return held;
  }

  /** Somebody was let in: what was nobody's is this tenant's, as far as that may have so many. */
  void belongTo(int tenant) {
    for (Held one : List.copyOf(all)) {
      if (one.tenant == NOBODY) {
        if (limits.hold(tenant)) {
          one.tenant = tenant;
        } else {
          one.breakOff.run();
        }
      }
    }
  }

  /** How many wait. */
  int count() {
    return all.size();
  }

  /** Breaks off what has waited for longer than that. */
  void checkTime(long nowNs, long waitNsMax) {
    for (Held one : List.copyOf(all)) {
      if (nowNs - one.sinceNs > waitNsMax) {
        one.breakOff.run();
      }
    }
  }

  /** Breaks off all. */
  void breakOffAll() {
    List.copyOf(all).forEach(one -> one.breakOff.run());
  }

  /** The connection has ended. */
  void close() {
    List.copyOf(all).forEach(Held::over);
  }
}

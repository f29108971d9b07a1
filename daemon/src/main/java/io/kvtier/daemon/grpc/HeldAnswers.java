package io.kvtier.daemon.grpc;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * The answers of one connection that wait until its client has half-closed their calls: an earlier
 * one would have its stream reset. Nobody waits for ever. Confined to an event loop.
 */
final class HeldAnswers {
  private record Held(BooleanSupplier isOver, Runnable breakOff, long sinceNs) {}

  private final List<Held> all = new ArrayList<>(0);

  /**
   * Another one.
   *
   * @param isOver whether it has been given, or nobody waits for it any more
   * @param breakOff ends its call without it
   */
  void add(BooleanSupplier isOver, Runnable breakOff, long nowNs) {
    all.add(new Held(isOver, breakOff, nowNs));
  }

  /** How many wait still. */
  int count() {
    all.removeIf(one -> one.isOver.getAsBoolean());
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
}

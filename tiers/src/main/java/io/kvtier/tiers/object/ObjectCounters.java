package io.kvtier.tiers.object;

import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/** Counts what an {@link ObjectPipeline} does. Safe for several threads. */
final class ObjectCounters {
  private final Map<ObjectCounter, LongAdder> adders = new EnumMap<>(ObjectCounter.class);

  ObjectCounters() {
    for (ObjectCounter counter : ObjectCounter.values()) {
      adders.put(counter, new LongAdder());
    }
  }

  void add(ObjectCounter counter, long count) {
    adder(counter).add(count);
  }

  long sum(ObjectCounter counter) {
    return adder(counter).sum();
  }

  private LongAdder adder(ObjectCounter counter) {
    LongAdder adder = adders.get(counter);
    if (adder == null) {
      throw new IllegalStateException("nobody counts " + counter);
    }
    return adder;
  }
}

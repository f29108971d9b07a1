package io.kvtier.client.internal.session;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.Map;

/** What the daemon says of itself in its memory, also while it hangs. Only while it is mapped. */
final class DaemonView {
  private final MemorySegment memory;

  /**
   * A view.
   *
   * @param memory the daemon's, read-only
   */
  DaemonView(MemorySegment memory) {
    this.memory = memory;
  }

  /** Whether the index sleeps, and wants a bell. */
  boolean isIndexWaiting() {
    return Words.getIntAcquire(memory, DaemonRegionDescriptor.INDEX_WAITING_OFFSET) == 1;
  }

  /**
   * Whether the index was last on the processor of the calling thread: it can't run there until
   * this thread sleeps.
   */
  boolean isIndexHere() {
    int cpu = Words.getIntAcquire(memory, DaemonRegionDescriptor.INDEX_CPU_OFFSET);
    return cpu != 0 && cpu == ThreadCpus.current() + 1;
  }

  /** CLOCK_MONOTONIC ns of the index's last look round. */
  long heartbeatNs() {
    return Words.getLongAcquire(memory, DaemonRegionDescriptor.HEARTBEAT_OFFSET);
  }

  /** The counters by name, as many as that daemon has. */
  Map<String, Long> counters() {
    Map<String, Long> values = new LinkedHashMap<>();
    int known = Words.getInt(memory, DaemonRegionDescriptor.COUNTER_COUNT_OFFSET);
    long end = DaemonRegionDescriptor.COUNTERS_OFFSET + 8L * known;
    for (Counter counter : Counter.values()) {
      if (counter.offset() < end) {
        values.put(counter.key(), Words.getLongAcquire(memory, counter.offset()));
      }
    }
    return values;
  }
}

package io.kvtier.daemon.simulation;

import io.kvtier.daemon.index.report.EventRecordDescriptor;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What one start of the daemon tells of its blocks: all of it taken together must be what a walk
 * over its directory finds.
 */
final class EventOracle implements AutoCloseable {
  private static final int RING_BYTES = 4 << 20;
  private static final int NODE = ~EventRecordDescriptor.OBJECT;

  private final EventRing ring;
  private final RingConsumer records;

  /** In which tiers each block is said to be; null until that is known. */
  private @Nullable Map<String, Integer> told;

  /** The same of a walk that goes on. */
  private @Nullable Map<String, Integer> found;

  private long expected;
  private int walks;

  /**
   * Of a daemon that starts.
   *
   * @param isNew whether there can be no blocks yet
   */
  EventOracle(boolean isNew) throws IOException {
    ring = new EventRing(RING_BYTES);
    records = ring.consumer();
    told = isNew ? new HashMap<>() : null;
  }

  EventRing ring() {
    return ring;
  }

  int walks() {
    return walks;
  }

  /** Takes what was told; what is wrong with it, or null. */
  @Nullable String read() throws ProtocolViolation {
    String wrong = null;
    while (records.hasNext() && wrong == null) {
      wrong = read(records.region(), records.offset());
      records.skip(records.recordBytes());
      records.release();
    }
    return wrong;
  }

  private @Nullable String read(MemorySegment memory, long at) {
    long sequence = Words.getLong(memory, at + EventRecordDescriptor.SEQUENCE_OFFSET);
    if (sequence != expected++) {
      return "an event was lost, though the ring is large";
    }
    int tiers = Words.getByte(memory, at + EventRecordDescriptor.TIERS_OFFSET);
    String name =
        Words.getInt(memory, at + EventRecordDescriptor.NAMESPACE_OFFSET)
            + "/"
            + new String(
                memory
                    .asSlice(at + EventRecordDescriptor.KEY_OFFSET, 32)
                    .toArray(java.lang.foreign.ValueLayout.JAVA_BYTE),
                StandardCharsets.ISO_8859_1);
    switch (Words.getByte(memory, at + EventRecordDescriptor.KIND_OFFSET)) {
      case EventRecordDescriptor.STORED -> {
        add(told, name, tiers);
        add(found, name, tiers);
      }
      case EventRecordDescriptor.REMOVED -> {
        remove(told, name, tiers);
        remove(found, name, tiers);
      }
      case EventRecordDescriptor.WALK_BEGIN -> found = new HashMap<>();
      case EventRecordDescriptor.PRESENT -> add(found, name, tiers);
      default -> {
        Map<String, Integer> walked = found;
        found = null;
        walks++;
        if (walked != null && told != null && !node(told).equals(node(walked))) {
          return "events tell of "
              + node(told).size()
              + " blocks, but "
              + node(walked).size()
              + " are there, or in other tiers";
        }
        told = walked;
      }
    }
    return null;
  }

  private static void add(@Nullable Map<String, Integer> to, String name, int tiers) {
    if (to != null) {
      to.merge(name, tiers, (before, more) -> before | more);
    }
  }

  private static void remove(@Nullable Map<String, Integer> from, String name, int tiers) {
    if (from != null) {
      from.computeIfPresent(name, (_, before) -> (before & ~tiers) == 0 ? null : before & ~tiers);
    }
  }

  /** Without what is in the object tier: blocks that are only there have no record. */
  private static Map<String, Integer> node(Map<String, Integer> all) {
    Map<String, Integer> node = new TreeMap<>();
    all.forEach((name, tiers) -> {
      if ((tiers & NODE) != 0) {
        node.put(name, tiers & NODE);
      }
    });
    return node;
  }

  @Override
  public void close() {
    ring.close();
  }
}

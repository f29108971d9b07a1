package io.kvtier.tiers.slots;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The parts of a tier's regions that somebody may still write who has lost his slot there, whatever
 * the regions are cut into now. Confined to the index.
 */
final class DoubtfulRanges {
  private record Range(long begin, long end) {}

  /** Of each region, how often each range was added; null: never. */
  private final @Nullable Map<Range, Integer>[] ofRegion;

  private int size;

  @SuppressWarnings({"unchecked", "rawtypes"}) // there are no generic arrays
  DoubtfulRanges(int regions) {
    ofRegion = new Map[regions];
  }

  /** How many ranges were added and not taken back. */
  int size() {
    return size;
  }

  /** Adds a range; the same one may be added several times. */
  void add(int region, long offset, long bytes) {
    Map<Range, Integer> ranges = ofRegion[region];
    if (ranges == null) {
      ranges = new HashMap<>();
      ofRegion[region] = ranges;
    }
    size++;
    ranges.merge(new Range(offset, offset + bytes), 1, Integer::sum);
  }

  /** Takes a range back that was added. */
  void remove(int region, long offset, long bytes) {
    Range range = new Range(offset, offset + bytes);
    Map<Range, Integer> ranges = ofRegion[region];
    Integer times = ranges == null ? null : ranges.get(range);
    if (ranges == null || times == null) {
      throw new IllegalStateException("region " + region + " has no doubtful " + range);
    }
    size--;
    if (times > 1) {
      ranges.put(range, times - 1);
    } else {
      ranges.remove(range);
    }
    if (ranges.isEmpty()) {
      ofRegion[region] = null;
    }
  }

  /** Which slots of a region touch a range; null: none does. */
  @Nullable BitSet touched(int region, int slotBytes, int slots) {
    Map<Range, Integer> ranges = ofRegion[region];
    if (ranges == null) {
      return null;
    }
    BitSet touched = new BitSet(slots);
    for (Range range : ranges.keySet()) {
      int first = (int) Math.min(slots, range.begin / slotBytes);
      touched.set(first, Math.clamp(Math.ceilDiv(range.end, slotBytes), first, slots));
    }
    return touched.isEmpty() ? null : touched;
  }
}

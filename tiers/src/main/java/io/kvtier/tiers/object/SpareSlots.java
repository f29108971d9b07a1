package io.kvtier.tiers.object;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;

/**
 * Memory for reads that do not go to the slab of a block: the second call of a load, and a load
 * that is repeated because the bytes in the slab did not verify. For one thread.
 */
final class SpareSlots {
  private static final int SLOTS_MAX = 8;

  private final ArrayDeque<MemorySegment> free = new ArrayDeque<>();
  private int made;

  /** Whether all slots are in use. */
  boolean isEmpty() {
    return free.isEmpty() && made == SLOTS_MAX;
  }

  /** Takes a slot of at least that many bytes; only where this is not empty. */
  MemorySegment take(int bytes) {
    MemorySegment slot = free.pollFirst();
    if (slot == null) {
      made++;
    }
    return slot != null && slot.byteSize() >= bytes
        ? slot
        : Arena.ofAuto().allocate(bytes, Long.BYTES);
  }

  /** Gives a slot back. */
  void giveBack(MemorySegment slot) {
    free.addLast(slot);
  }
}

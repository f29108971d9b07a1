package io.kvtier.daemon.events;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.policies.BitMixer;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.stream.IntStream;

/**
 * The published blocks and their tiers of this node. A comparison with the index's blocks repairs
 * the effect of lost events. A hash table in a fixed amount of memory; blocks that find no place in
 * it can't be compared. For one thread.
 *
 * <pre> 0  key, 32 bytes   32  u32 namespace id   36  u16 group   38  u8 key bytes, 0 for a free
 * place 39  u8 tiers, a bit each                   40  u32 round in which it was seen, one a tier
 * </pre>
 */
final class ResidencyTable implements AutoCloseable {
  /** Takes a block that the walk has not found. */
  @FunctionalInterface
  interface Visitor {
    void visit(byte[] key, int keyBytes, int namespaceId, int group, int tiers);
  }

  /** The bits of this node's tiers. */
  private static final int[] TIER_BITS =
      KnownTiers.ALL.stream().mapToInt(TierTraits::eventBit).toArray();

  static final int TIERS_MASK = IntStream.of(TIER_BITS).reduce(0, (all, bit) -> all | bit);

  private static final int NAMESPACE = 32;
  private static final int GROUP = 36;
  private static final int KEY_BYTES = 38;
  private static final int BITS = 39;
  private static final int ROUNDS = 40;
  private static final int ENTRY_BYTES =
      Math.ceilDiv(ROUNDS + Integer.BYTES * TIER_BITS.length, Long.BYTES) * Long.BYTES;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment entries;
  private final int mask;
  private final int sizeMax;
  private final byte[] key = new byte[32];
  private int size;

  /** An empty table for the given number of blocks. Memory is taken as it is used. */
  ResidencyTable(int blocksMax) throws IOException {
    int places = Integer.highestOneBit(Math.max(64, blocksMax - 1)) << 1;
    mask = places - 1;
    sizeMax = places - places / 8;
    long bytes = (long) places * ENTRY_BYTES;
    long rounded = (bytes + SharedMemory.PAGE_BYTES - 1) & -SharedMemory.PAGE_BYTES;
    try (Descriptor memory = SharedMemory.create("kvtier-told", rounded)) {
      entries = SharedMemory.map(memory, rounded, true, arena);
    }
  }

  int size() {
    return size;
  }

  /** Notes in a round that a block was published as stored in tiers. */
  void add(EventRecord block, int tiers, int round) {
    int place = find(block);
    long at = at(place);
    if (isFree(place)) {
      if ((tiers & TIERS_MASK) == 0 || size >= sizeMax) {
        return;
      }
      size++;
      MemorySegment.copy(block.key, 0, entries, BYTE, at, block.key.length);
      entries.set(INT, at + NAMESPACE, block.namespaceId);
      entries.set(ValueLayout.JAVA_SHORT, at + GROUP, (short) block.group);
      entries.set(BYTE, at + KEY_BYTES, (byte) block.keyBytes);
      entries.set(BYTE, at + BITS, (byte) 0);
    }
    entries.set(BYTE, at + BITS, (byte) (bits(place) | (tiers & TIERS_MASK)));
    for (int tier = 0; tier < TIER_BITS.length; tier++) {
      if ((tiers & TIER_BITS[tier]) != 0) {
        entries.set(INT, at + ROUNDS + 4L * tier, round);
      }
    }
  }

  /** Notes that a block was published as removed from tiers. */
  void remove(EventRecord block, int tiers) {
    int place = find(block);
    if (!isFree(place)) {
      setBits(place, bits(place) & ~tiers);
    }
  }

  /** Visits and forgets the blocks that were last seen before a round. */
  void sweep(int round, Visitor visitor) {
    for (int place = 0; place <= mask; place++) {
      // A block that moves to this place is visited next.
      for (int stale = stale(place, round); stale != 0; stale = stale(place, round)) {
        long at = at(place);
        MemorySegment.copy(entries, BYTE, at, key, 0, key.length);
        visitor.visit(
            key,
            entries.get(BYTE, at + KEY_BYTES),
            entries.get(INT, at + NAMESPACE),
            Short.toUnsignedInt(entries.get(ValueLayout.JAVA_SHORT, at + GROUP)),
            stale);
        setBits(place, bits(place) & ~stale);
      }
    }
  }

  private int stale(int place, int round) {
    int stale = 0;
    for (int tier = 0; tier < TIER_BITS.length && !isFree(place); tier++) {
      boolean isSeen = entries.get(INT, at(place) + ROUNDS + 4L * tier) - round >= 0;
      stale |= isSeen ? 0 : bits(place) & TIER_BITS[tier];
    }
    return stale;
  }

  private int bits(int place) {
    return entries.get(BYTE, at(place) + BITS);
  }

  private void setBits(int place, int bits) {
    if (bits == 0) {
      free(place);
    } else {
      entries.set(BYTE, at(place) + BITS, (byte) bits);
    }
  }

  /** Frees a place. Blocks behind it move up if their probing passed this place. */
  private void free(int place) {
    int hole = place;
    for (int next = hole + 1 & mask; !isFree(next); next = next + 1 & mask) {
      int home = home(next);
      if ((next - home & mask) >= (next - hole & mask)) {
        MemorySegment.copy(entries, at(next), entries, at(hole), ENTRY_BYTES);
        hole = next;
      }
    }
    entries.set(BYTE, at(hole) + KEY_BYTES, (byte) 0);
    size--;
  }

  private static long at(int place) {
    return (long) place * ENTRY_BYTES;
  }

  private boolean isFree(int place) {
    return entries.get(BYTE, at(place) + KEY_BYTES) == 0;
  }

  private int home(int place) {
    long at = at(place);
    return home(
        entries.get(LONG, at),
        entries.get(LONG, at + 8),
        entries.get(INT, at + NAMESPACE),
        Short.toUnsignedInt(entries.get(ValueLayout.JAVA_SHORT, at + GROUP)));
  }

  private int home(long first, long second, int namespaceId, int group) {
    long mixed = BitMixer.mix(first ^ BitMixer.mix(second ^ ((long) group << 32 ^ namespaceId)));
    return (int) mixed & mask;
  }

  private int find(EventRecord block) {
    MemorySegment sought = MemorySegment.ofArray(block.key);
    int place =
        home(
            sought.get(ValueLayout.JAVA_LONG_UNALIGNED, 0),
            sought.get(ValueLayout.JAVA_LONG_UNALIGNED, 8),
            block.namespaceId,
            block.group);
    while (!isFree(place) && !matches(place, block, sought)) {
      place = place + 1 & mask;
    }
    return place;
  }

  private boolean matches(int place, EventRecord block, MemorySegment sought) {
    long at = at(place);
    return entries.get(BYTE, at + KEY_BYTES) == block.keyBytes
        && entries.get(INT, at + NAMESPACE) == block.namespaceId
        && Short.toUnsignedInt(entries.get(ValueLayout.JAVA_SHORT, at + GROUP)) == block.group
        && MemorySegment.mismatch(entries, at, at + block.key.length, sought, 0, block.key.length)
            < 0;
  }

  @Override
  public void close() {
    arena.close();
  }
}

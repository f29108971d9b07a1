package io.kvtier.daemon.index.session;

import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/**
 * Which slots of the host tier clients were told to write, and have not said yet that they have
 * written. Such a claim ends with the commit, the abort, or the hang-up of the client, which closes
 * its socket when it writes no more.
 *
 * <p>A client can lose a slot before: its reservation expires, the daemon ends its session, or the
 * daemon ends. Nobody can take the memory away from it, so its claim is late from then on: the slot
 * is doubtful ({@link SlotAllocator#doubt}) until the client says that it has written, or its
 * process has ended.
 *
 * <p>Confined to the index. A claim that is not late costs no garbage.
 */
public final class SlotClaims {
  private static final int NONE = -1;
  private static final long LOOK_EVERY_NS = 100_000_000L;

  private record Place(int region, long offset, int bytes) {}

  private final SlotAllocator slots;
  private final WriterParts parts;
  private final BitSet doubtedWhole;
  private final int[] ofHold;
  private final int[] region;
  private final long[] offset;
  private final int[] bytes;
  private final boolean[] isLate;
  private final int[] stack;
  private int free;

  /** Claims without a session, by the process that has to end. */
  private final Map<ProcessId, Map<Place, Integer>> ownerless = new HashMap<>();

  /** These processes, in the order in which they are looked at. */
  private final ArrayDeque<ProcessId> toLookAt = new ArrayDeque<>();

  private int ownerlessCount;
  private int lateCount;
  private long nextLookNs;

  public SlotClaims(SlotAllocator slots, WriterParts parts, int holdsMax) {
    this.slots = slots;
    this.parts = parts;
    doubtedWhole = (BitSet) parts.doubtful().clone();
    ofHold = new int[holdsMax];
    Arrays.fill(ofHold, NONE);
    int places = parts.places();
    region = new int[places];
    offset = new long[places];
    bytes = new int[places];
    isLate = new boolean[places];
    stack = new int[places];
    for (int place = places - 1; place >= parts.late().size(); place--) {
      stack[free++] = place;
    }
    for (int place = 0; place < parts.late().size(); place++) {
      Claim claim = parts.late().get(place);
      region[place] = claim.region();
      offset[place] = claim.offset();
      bytes[place] = claim.bytes();
      becomeLate(place);
      disown(place, claim.writer());
    }
    doubtedWhole.stream().forEach(slab -> slots.doubt(slab, 0, slots.regionBytes()));
  }

  /**
   * A session is about to hear of a slot that it shall write.
   *
   * @return false when there are as many claims as there can be
   */
  public boolean begin(int hold, int slot, Session session) {
    if (free == 0) {
      return false;
    }
    int place = stack[--free];
    region[place] = slots.regionOf(slot);
    offset[place] = slots.offsetOf(slot);
    bytes[place] = slots.slotBytes(slots.classOf(slot));
    ofHold[hold] = place;
    parts.note().write(place, region[place], offset[place], bytes[place], session.process());
    return true;
  }

  /** The client says that it writes no more, or never heard of the slot. */
  public void end(int hold) {
    int place = ofHold[hold];
    if (place != NONE) {
      ofHold[hold] = NONE;
      free(place);
    }
  }

  private void free(int place) {
    if (isLate[place]) {
      isLate[place] = false;
      lateCount--;
      slots.trust(region[place], offset[place], bytes[place]);
    }
    parts.note().clear(place);
    stack[free++] = place;
  }

  /** The slot is going to be another's, and its client may go on writing. */
  public void lose(int hold) {
    int place = ofHold[hold];
    if (place != NONE && !isLate[place]) {
      becomeLate(place);
    }
  }

  private void becomeLate(int place) {
    isLate[place] = true;
    lateCount++;
    slots.doubt(region[place], offset[place], bytes[place]);
  }

  /** The same, and the session ends: it will not say when it has written. */
  public void leave(int hold, Session session) {
    int place = ofHold[hold];
    if (place == NONE) {
      return;
    }
    lose(hold);
    ofHold[hold] = NONE;
    disown(place, session.process());
  }

  private void disown(int place, ProcessId writer) {
    boolean isFull = ownerlessCount == parts.lateMax();
    Map<Place, Integer> ofWriter = isFull ? null : ownerless.get(writer);
    if (!isFull && ofWriter == null) {
      ofWriter = new HashMap<>();
      ownerless.put(writer, ofWriter);
      toLookAt.add(writer);
    }
    if (ofWriter == null) {
      // No place to remember it: nobody can tell any more where in this region he may be writing.
      doubtAll(region[place]);
      free(place);
    } else if (ofWriter.putIfAbsent(new Place(region[place], offset[place], bytes[place]), place)
        != null) {
      // The same process may write the slot already.
      free(place);
    } else {
      ownerlessCount++;
    }
  }

  private void doubtAll(int slab) {
    if (!doubtedWhole.get(slab)) {
      doubtedWhole.set(slab);
      parts.note().doubt(slab);
      slots.doubt(slab, 0, slots.regionBytes());
    }
  }

  /** Looks whether a process has ended whose claims have no session; called often. */
  public void checkTime(long nowNs) {
    if (toLookAt.isEmpty() || nowNs < nextLookNs) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    ProcessId writer = toLookAt.remove();
    if (!parts.isGone().test(writer)) {
      toLookAt.add(writer);
      return;
    }
    Map<Place, Integer> ended = ownerless.remove(writer);
    if (ended != null) {
      ownerlessCount -= ended.size();
      ended.values().forEach(this::free);
    }
  }

  /** Slots that clients may be writing that have lost them. */
  public int late() {
    return lateCount;
  }
}

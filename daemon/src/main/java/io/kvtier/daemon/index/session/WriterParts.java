package io.kvtier.daemon.index.session;

import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
import java.util.BitSet;
import java.util.List;
import java.util.function.Predicate;

/**
 * What the index is told of those who may write to the host tier's slots.
 *
 * @param note where claims are noted
 * @param places how many claims there can be
 * @param lateMax how many of them can be of writers that have no session any more
 * @param late claims of earlier daemons' clients; they stand in the first places
 * @param doubtful regions in which such clients may be writing anywhere
 * @param isGone whether a process has ended
 */
public record WriterParts(
    ClaimNote note,
    int places,
    int lateMax,
    List<Claim> late,
    BitSet doubtful,
    Predicate<ProcessId> isGone) {
  private static final int LATE_MAX = 1 << 16;

  /** For memory that nobody has written yet, and that goes with the daemon. */
  public static WriterParts ofNewMemory(int holdsMax, long slotsMax) {
    return new WriterParts(
        ClaimNote.NONE,
        places(holdsMax, slotsMax),
        lateMax(slotsMax),
        List.of(),
        new BitSet(),
        ProcessId::isGone);
  }

  /** How many claims there can be, with so many holds and slots. */
  public static int places(int holdsMax, long slotsMax) {
    return (int) Math.min(holdsMax, slotsMax) + lateMax(slotsMax);
  }

  /** How many of them can be of writers that have no session any more. */
  public static int lateMax(long slotsMax) {
    return (int) Math.min(LATE_MAX, slotsMax);
  }
}

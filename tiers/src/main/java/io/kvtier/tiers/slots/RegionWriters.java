package io.kvtier.tiers.slots;

import java.util.function.IntConsumer;

/**
 * Which session may be given slots of a region, and which sessions could ever have written to it.
 * Confined to the index.
 */
final class RegionWriters {
  /** The writer of regions that only the daemon writes. */
  static final long DAEMON = 0;

  private final long[] grantedTo;
  private final int[] writers;

  /** The exclusive or of all writers of a region: with one writer, that writer. */
  private final long[] writersXor;

  private IntConsumer onFirst = region -> {};

  /** Regions that are granted to nobody and that nobody has written. */
  RegionWriters(int regions) {
    grantedTo = new long[regions];
    writers = new int[regions];
    writersXor = new long[regions];
  }

  /** Whether a region is granted to a session or to nobody; the daemon may write anywhere. */
  boolean admits(int region, long session) {
    return session == DAEMON || grantedTo[region] == session || grantedTo[region] == DAEMON;
  }

  void grant(int region, long session) {
    grantedTo[region] = session;
  }

  /** A session has ended: its regions are granted to nobody. */
  void revoke(long session) {
    for (int region = 0; region < grantedTo.length; region++) {
      if (grantedTo[region] == session) {
        grantedTo[region] = DAEMON;
      }
    }
  }

  /** The session that a region is granted to, or {@link #DAEMON}. */
  long grantedTo(int region) {
    return grantedTo[region];
  }

  /** A session may write to a region from now on; told once for each session and region. */
  void add(int region, long session) {
    if (writers[region] == 0) {
      onFirst.accept(region);
    }
    writers[region]++;
    writersXor[region] ^= session;
  }

  /** Sets who is told of each region that gets its first writer, before it has that writer. */
  void onFirst(IntConsumer told) {
    onFirst = told;
  }

  /** Whether another session could write to a region, even one that has ended. */
  boolean isWritableByOthers(int region, long session) {
    return writers[region] > 1 || (writers[region] == 1 && writersXor[region] != session);
  }
}

package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The announcements of this node to one owner: batches with numbers. If the owner misses a batch,
 * or too many entries wait, the list begins anew. Confined to the first reader.
 */
final class Outbox {
  private static final long FLUSH_NS = TimeUnit.MILLISECONDS.toNanos(10);
  private static final int BATCH = 1024;
  private static final int WAITING_MAX = 1 << 16;

  /** With more entries, walks wait. The rest is for blocks that a walk has already told. */
  private static final int BEHIND = WAITING_MAX / 4;

  private static final int UNANSWERED_MAX = 4;

  private final PeerLink link;

  /** Has all blocks of the owner's partitions announced again. */
  private final Runnable again;

  private long[] entries = new long[64];
  private int count;
  private long sinceNs;
  private long sequence;

  /** How often the list began anew. */
  private int lists;

  private int unanswered;
  private boolean isOff;

  Outbox(PeerLink link, Runnable again) {
    this.link = link;
    this.again = again;
  }

  PeerLink link() {
    return link;
  }

  void add(long entry, long nowNs) {
    if (isOff) {
      return;
    }
    if (count == WAITING_MAX) {
      beginAnew();
      return;
    }
    if (count == 0) {
      sinceNs = nowNs;
    }
    if (count == entries.length) {
      entries = Arrays.copyOf(entries, 2 * count);
    }
    entries[count++] = entry;
  }

  /** Whether more entries wait than the owner takes. */
  boolean isBehind() {
    return count > BEHIND;
  }

  /** Begins the list anew: all blocks are announced again. */
  void beginAnew() {
    lists++;
    sequence = 0;
    count = 0;
    again.run();
  }

  /** Sends full batches, and entries that have waited for long enough. */
  void flush(long nowNs) {
    int from = 0;
    while (!isOff
        && unanswered < UNANSWERED_MAX
        && (sequence == 0
            || count - from >= BATCH
            || (count > from && nowNs - sinceNs >= FLUSH_NS))) {
      int length = Math.min(count - from, DirectoryMessages.ENTRIES_MAX);
      send(Arrays.copyOfRange(entries, from, from + length), nowNs);
      from += length;
    }
    if (from > 0) {
      System.arraycopy(entries, from, entries, 0, count - from);
      count -= from;
      sinceNs = nowNs;
    }
  }

  private void send(long[] batch, long nowNs) {
    int list = lists;
    unanswered++;
    link.request(
        FrameType.ANNOUNCE,
        new DirectoryMessages.Announcement(sequence++, batch).body(),
        answer -> answered(list, answer),
        nowNs);
  }

  private void answered(int list, @Nullable Frame answer) {
    unanswered--;
    if (answer == null || answer.status() == Status.OK || list != lists) {
      return; // without an answer, the next batch tells whether one is missing
    }
    if (answer.status() == Status.STALE) {
      beginAnew();
    } else {
      isOff = true; // the node keeps no directory
      count = 0;
    }
  }
}

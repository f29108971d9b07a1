package io.kvtier.tiers.object.janitor;

import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.StoredObject;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;

/**
 * When objects were used last, as all nodes' logs tell. Bounded: the newest logs are read first,
 * and the uses that find no room are the oldest ones. For one thread.
 */
final class UseTable {
  /** More logs than that are not looked at: some 2 MB of the heap while they are read. */
  private static final int LOGS_MAX = 10_000;

  private static final Comparator<StoredObject> BY_AGE =
      Comparator.comparingLong(StoredObject::modifiedMs).thenComparing(StoredObject::name);

  /** What a table takes of the heap for each use that it knows, at most, while it grows. */
  static final int BYTES_PER_USE = 72;

  private static final int CAPACITY_MIN = 1024;

  private final int usesMax;
  private long[] digests = new long[CAPACITY_MIN];
  private int[] seconds = new int[CAPACITY_MIN];
  private int size;
  private int logs;
  private final List<String> outdated = new ArrayList<>();

  private UseTable(int usesMax) {
    this.usesMax = usesMax;
  }

  /**
   * Reads the logs that nodes wrote.
   *
   * @param keptFromMs logs that are older are not read, by the store's clock
   */
  static UseTable read(JanitorCalls calls, int usesMax, long keptFromMs) throws RunEnd {
    UseTable table = new UseTable(usesMax);
    PriorityQueue<StoredObject> newest = new PriorityQueue<>(BY_AGE);
    calls.list(
        ReservedNames.USED,
        objects -> {
          for (StoredObject log : objects) {
            newest.add(log);
            if (log.modifiedMs() < keptFromMs || newest.size() > LOGS_MAX) {
              table.outdate(newest.remove());
            }
          }
        });
    List<StoredObject> ordered = new ArrayList<>(newest);
    ordered.sort(BY_AGE.reversed());
    for (StoredObject log : ordered) {
      if (table.size == usesMax) {
        table.outdate(log);
      } else {
        table.read(calls, log);
      }
    }
    return table;
  }

  private void outdate(StoredObject log) {
    // The next run finds the ones that there is no room for here.
    if (outdated.size() < LOGS_MAX) {
      outdated.add(log.name());
    }
  }

  private void read(JanitorCalls calls, StoredObject log) throws RunEnd {
    long bytes = log.bytes();
    if (bytes < UseLogDescriptor.DIGESTS_OFFSET
        || bytes > UseLogDescriptor.DIGESTS_OFFSET + (long) Long.BYTES * (1 << 24)
        || bytes % Long.BYTES != 0) {
      return;
    }
    try (Arena arena = Arena.ofShared()) {
      MemorySegment memory = arena.allocate(bytes, Long.BYTES);
      StoreResult result = calls.get(log.name(), List.of(memory));
      // Another than Done: another collector removed it.
      if (result instanceof StoreResult.Done(long received) && received == bytes) {
        read(memory, log.modifiedMs());
      }
    }
  }

  private void read(MemorySegment memory, long modifiedMs) {
    MemorySegment told = memory.asSlice(UseLogDescriptor.DIGESTS_OFFSET);
    if (Words.getLong(memory, UseLogDescriptor.MAGIC_OFFSET) != UseLogDescriptor.MAGIC
        || Words.getInt(memory, UseLogDescriptor.VERSION_OFFSET) != UseLogDescriptor.VERSION
        || Words.getInt(memory, UseLogDescriptor.CHECKSUM_OFFSET) != Checksums.of(told)) {
      return;
    }
    logs++;
    // Rather late than early: what was used counts as used until the second has passed.
    int second = (int) (TimeUnit.MILLISECONDS.toSeconds(modifiedMs) + 1);
    for (long at = 0; at < told.byteSize(); at += Long.BYTES) {
      add(Words.getLong(told, at), second);
    }
  }

  /** A use that is in the table is a newer one. */
  private void add(long digest, int second) {
    int at = place(digest);
    if (digest == 0 || digests[at] == digest || size == usesMax) {
      return;
    }
    digests[at] = digest;
    seconds[at] = second;
    size++;
    if (size > digests.length / 2) {
      grow();
    }
  }

  private int place(long digest) {
    int mask = digests.length - 1;
    int at = (int) digest & mask;
    while (digests[at] != 0 && digests[at] != digest) {
      at = (at + 1) & mask;
    }
    return at;
  }

  private void grow() {
    long[] oldDigests = digests;
    int[] oldSeconds = seconds;
    digests = new long[2 * oldDigests.length];
    seconds = new int[2 * oldSeconds.length];
    for (int i = 0; i < oldDigests.length; i++) {
      if (oldDigests[i] != 0) {
        int at = place(oldDigests[i]);
        digests[at] = oldDigests[i];
        seconds[at] = oldSeconds[i];
      }
    }
  }

  /** When it was used, by the store's clock in ms since 1970; 0 when no log tells. */
  long lastUseMs(long digest) {
    int at = place(digest);
    return digests[at] == 0 ? 0 : TimeUnit.SECONDS.toMillis(Integer.toUnsignedLong(seconds[at]));
  }

  /** How many uses are known. */
  int size() {
    return size;
  }

  /** How many logs were read. */
  int logs() {
    return logs;
  }

  /** The names of logs that can be removed, as nobody will read them again. */
  List<String> outdated() {
    return outdated;
  }
}

package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.StoredObject;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The right to do what only one node shall do at a time, made of nothing but objects that are
 * written if absent.
 *
 * <p>The lease is a row of terms with rising numbers, an object each. The highest number counts.
 * Who wants the next term writes it if absent, so one of several gets it: when the highest has run
 * out, when its holder gave it back, or, to renew it, when it is one's own. Whether it has run out
 * is seen by the store's clock alone: by the time of its object, and by that of one that was just
 * written to see the time. The clocks of nodes need not agree; they only have to run at about the
 * same rate.
 *
 * <p>The highest term is never removed, only those below it. A node that was stopped between its
 * look and its write may so write a number that was removed before, and believe it has the term; so
 * who has written looks once more whether its number is the highest.
 *
 * <p>A holder counts its time from before it wrote the term, and leaves an eighth of it unused; the
 * others wait for all of it and {@link #GRAIN_MS} more. For one thread.
 */
final class ObjectLease {
  /** Stores tell times in whole seconds, some of them. */
  static final long GRAIN_MS = 2000;

  private static final int BODY_BYTES_MAX = 1024;

  /** A term as its object says. */
  private record Term(String id, long durationMs, boolean released, String node) {
    static Term parse(String text, long durationMsDefault) {
      String[] words = text.strip().split(" ", 4);
      if (words.length == 4) {
        try {
          return new Term(
              words[0], Long.parseLong(words[1]), words[2].equals("released"), words[3]);
        } catch (NumberFormatException e) {
          // Of another version, perhaps: it is held for as long as one's own would be.
        }
      }
      return new Term("", durationMsDefault, false, "unknown");
    }

    String text() {
      return id + ' ' + durationMs + ' ' + (released ? "released" : "held") + ' ' + node + '\n';
    }
  }

  private final String node;
  private final long durationMs;
  private final JanitorClock clock;
  private final String id = UUID.randomUUID().toString();
  private final MemorySegment body = Arena.ofAuto().allocate(BODY_BYTES_MAX);
  private long number;
  private long begunNs;
  private long seenMs;
  private long seenAtNs;
  private String other = "";

  /**
   * Nothing is held.
   *
   * @param durationMs of a term: so long a dead holder keeps the others waiting
   */
  ObjectLease(String node, long durationMs, JanitorClock clock) {
    this.node = node;
    this.durationMs = durationMs;
    this.clock = clock;
  }

  /** Takes the lease if it is free. */
  boolean acquire(JanitorCalls calls) throws RunEnd {
    number = 0;
    StoredObject highest = highest(calls);
    if (highest == null) {
      return claim(calls, 1);
    }
    Term term = read(calls, highest.name());
    if (term == null) {
      return false; // Removed, so there is a higher one by now.
    }
    if (!term.released()
        && !term.id().equals(id)
        && storeTimeMs(calls) - highest.modifiedMs() < term.durationMs() + GRAIN_MS) {
      other = term.node();
      return false;
    }
    return claim(calls, ReservedNames.leaseNumber(highest.name()) + 1);
  }

  /** Who was seen to hold it when it could not be taken; empty when that is not known. */
  String other() {
    return other;
  }

  /** Whether it is held at this moment, so that all others keep away. */
  boolean isHeld() {
    return number != 0 && clock.nanoTime() - begunNs < termNs() - termNs() / 8;
  }

  /**
   * Renews the lease when it is time to, and is sure of it then.
   *
   * @return whether it is held
   */
  boolean keep(JanitorCalls calls) throws RunEnd {
    if (number != 0 && clock.nanoTime() - begunNs >= termNs() / 3 && !claim(calls, number + 1)) {
      number = 0;
    }
    return isHeld();
  }

  /** Gives it back, so that nobody has to wait until it runs out. */
  void release(JanitorCalls calls) throws RunEnd {
    if (number == 0) {
      return;
    }
    long last = number + 1;
    number = 0;
    if (write(calls, ReservedNames.lease(last), true, true) instanceof StoreResult.Done) {
      calls.delete(below(calls, last));
    }
  }

  /**
   * The store's time, at the earliest that it can be; the lease was acquired before.
   *
   * @return in ms since 1970
   */
  long storeTimeMs() {
    return seenMs + TimeUnit.NANOSECONDS.toMillis(clock.nanoTime() - seenAtNs);
  }

  private long storeTimeMs(JanitorCalls calls) throws RunEnd {
    String name = ReservedNames.clock(node);
    StoreResult result = write(calls, name, false, false);
    if (!(result instanceof StoreResult.Done)) {
      throw JanitorCalls.failure("the put of " + name, result);
    }
    for (StoredObject object : listed(calls, name)) {
      if (object.name().equals(name)) {
        calls.delete(List.of(name));
        return object.modifiedMs();
      }
    }
    throw new RunEnd(
        JanitorReport.State.FAILED,
        name + " is gone after it was written: does another node have the same name?");
  }

  private long termNs() {
    return TimeUnit.MILLISECONDS.toNanos(durationMs);
  }

  private boolean claim(JanitorCalls calls, long wanted) throws RunEnd {
    long beginNs = clock.nanoTime();
    String name = ReservedNames.lease(wanted);
    StoreResult result = write(calls, name, false, true);
    if (!(result instanceof StoreResult.Done)) {
      // It may be one's own all the same, when the first try was done and its answer got lost.
      Term term = read(calls, name);
      if (term == null || term.released() || !term.id().equals(id)) {
        other = term == null ? "" : term.node();
        return false;
      }
    }
    StoredObject highest = highest(calls);
    if (highest == null || ReservedNames.leaseNumber(highest.name()) != wanted) {
      return false;
    }
    number = wanted;
    begunNs = beginNs;
    seenMs = highest.modifiedMs();
    seenAtNs = clock.nanoTime();
    List<String> old = below(calls, wanted);
    if (!old.isEmpty()) {
      calls.delete(old);
    }
    return true;
  }

  private @Nullable StoredObject highest(JanitorCalls calls) throws RunEnd {
    StoredObject highest = null;
    for (StoredObject object : listed(calls, ReservedNames.LEASES)) {
      // The list has the order of the numbers.
      if (ReservedNames.leaseNumber(object.name()) > 0) {
        highest = object;
      }
    }
    return highest;
  }

  private static List<String> below(JanitorCalls calls, long number) throws RunEnd {
    List<String> names = new ArrayList<>();
    for (StoredObject object : listed(calls, ReservedNames.LEASES)) {
      long one = ReservedNames.leaseNumber(object.name());
      if (one > 0 && one < number) {
        names.add(object.name());
      }
    }
    return names;
  }

  private static List<StoredObject> listed(JanitorCalls calls, String prefix) throws RunEnd {
    List<StoredObject> objects = new ArrayList<>();
    calls.list(prefix, objects::addAll);
    return objects;
  }

  private StoreResult write(JanitorCalls calls, String name, boolean released, boolean ifAbsent)
      throws RunEnd {
    byte[] bytes = new Term(id, durationMs, released, node).text().getBytes(StandardCharsets.UTF_8);
    MemorySegment text =
        Arena.ofAuto().allocate(bytes.length).copyFrom(MemorySegment.ofArray(bytes));
    return calls.put(name, List.of(text), ifAbsent);
  }

  /** Returns null when it is not there. */
  private @Nullable Term read(JanitorCalls calls, String name) throws RunEnd {
    StoreResult result = calls.get(name, List.of(body));
    return switch (result) {
      case StoreResult.Absent _ -> null;
      case StoreResult.Done(long bytes) ->
          Term.parse(
              new String(
                  body.asSlice(0, bytes).toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8),
              durationMs);
      default -> throw JanitorCalls.failure("the get of " + name, result);
    };
  }
}

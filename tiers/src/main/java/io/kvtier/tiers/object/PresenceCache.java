package io.kvtier.tiers.object;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import com.github.benmanes.caffeine.cache.Ticker;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What is known of the presence of objects without asking: what was stored, loaded or looked for
 * lately, by this node. It may be wrong, for others write and delete too: a present one is then a
 * miss, an absent one is asked for again after a while.
 *
 * <p>Bounded by bytes, with what a key was measured to take. Lookups never wait. What is not known
 * can be probed in the background; the probes of a key that come together are one.
 */
public final class PresenceCache {
  /**
   * What an entry takes of the heap: Caffeine's node with its key, its share of the table and of
   * the policy's sketch. Measured by the test, which fails where it is less than that.
   */
  public static final int BYTES_PER_KEY = 160;

  /** What is known of an object. */
  public enum Presence {
    PRESENT,
    ABSENT,
    UNKNOWN
  }

  /** One on its way, and who wants to know. */
  private record Probe(String name, List<Consumer<Presence>> waiting) {}

  private final Cache<ObjectKey, Presence> known;
  private final ObjectStore store;
  private final int probesMax;
  private final int waitingMax;
  private final long probeTimeoutNs;

  private final Object lock = new Object();
  private final Map<ObjectKey, Probe> probing = new LinkedHashMap<>();
  private final ArrayDeque<ObjectKey> waiting = new ArrayDeque<>();
  private int underWay;
  private boolean beginning;

  /**
   * Knows nothing.
   *
   * @param bytesMax of the heap
   * @param presentNs for how long a present object is taken for that, after the last news of it
   * @param absentNs the same for an absent one: shorter, as others store what this node misses
   * @param probesMax heads under way; sixteen times as many keys may wait for theirs
   */
  public PresenceCache(
      ObjectStore store,
      long bytesMax,
      long presentNs,
      long absentNs,
      int probesMax,
      long probeTimeoutNs) {
    this(
        store,
        bytesMax,
        presentNs,
        absentNs,
        probesMax,
        probeTimeoutNs,
        Ticker.systemTicker(),
        java.util.concurrent.ForkJoinPool.commonPool());
  }

  /** With a clock of one's own, and an executor for what the cache does beside. */
  public PresenceCache(
      ObjectStore store,
      long bytesMax,
      long presentNs,
      long absentNs,
      int probesMax,
      long probeTimeoutNs,
      Ticker ticker,
      Executor executor) {
    if (bytesMax < BYTES_PER_KEY || absentNs <= 0 || presentNs < absentNs || probesMax < 1) {
      throw new IllegalArgumentException(
          "the presence cache needs room for a key ("
              + bytesMax
              + " bytes), at least one probe ("
              + probesMax
              + "), and keeps what is present ("
              + presentNs
              + " ns) as long as what is absent ("
              + absentNs
              + " ns) or longer");
    }
    this.store = store;
    this.probesMax = probesMax;
    this.probeTimeoutNs = probeTimeoutNs;
    waitingMax = 16 * probesMax;
    known =
        Caffeine.newBuilder()
            .maximumSize(bytesMax / BYTES_PER_KEY)
            .expireAfter(
                Expiry.<ObjectKey, Presence>writing((_, presence) ->
                    java.time.Duration.ofNanos(
                        presence == Presence.PRESENT ? presentNs : absentNs)))
            .ticker(ticker)
            .executor(executor)
            .build();
  }

  /** What is known; at once. */
  public Presence lookup(ObjectKey key) {
    Presence presence = known.getIfPresent(key);
    return presence == null ? Presence.UNKNOWN : presence;
  }

  /** It was seen there. */
  public void present(ObjectKey key) {
    known.put(key, Presence.PRESENT);
  }

  /** It was seen not to be there. */
  public void absent(ObjectKey key) {
    known.put(key, Presence.ABSENT);
  }

  /** Whatever was known of it no longer holds. */
  public void forget(ObjectKey key) {
    known.invalidate(key);
  }

  /** Nothing that was known holds any longer. */
  public void forgetAll() {
    known.invalidateAll();
  }

  /** About how many keys are known. */
  public long size() {
    return known.estimatedSize();
  }

  /** Drops at once what is too much or too old. */
  void cleanUp() {
    known.cleanUp();
  }

  /**
   * Has the presence of an object found out in the background, unless it is known or being found
   * out. Beyond the bound on those that wait, it is left unknown.
   *
   * @param name of the object
   * @return whether it will be known soon, or is
   */
  public boolean probe(ObjectKey key, String name) {
    return probe(key, name, null);
  }

  /**
   * The same, and tells: what is found, or UNKNOWN where the store does not answer in time.
   *
   * @param whenFound called on any thread, at once where it is known
   * @return false when too many wait already: nobody will be told
   */
  public boolean probe(ObjectKey key, String name, @Nullable Consumer<Presence> whenFound) {
    Presence presence = lookup(key);
    if (presence != Presence.UNKNOWN) {
      if (whenFound != null) {
        whenFound.accept(presence);
      }
      return true;
    }
    synchronized (lock) {
      Probe probe = probing.get(key);
      if (probe == null) {
        if (waiting.size() == waitingMax) {
          return false;
        }
        probe = new Probe(name, new ArrayList<>(1));
        probing.put(key, probe);
        waiting.addLast(key);
      }
      if (whenFound != null) {
        probe.waiting.add(whenFound);
      }
    }
    beginProbes();
    return true;
  }

  private void beginProbes() {
    while (true) {
      ObjectKey key;
      Probe probe;
      synchronized (lock) {
        if (beginning || underWay == probesMax || waiting.isEmpty()) {
          return;
        }
        // A store may answer at once: who comes back here then leaves the rest to this loop.
        beginning = true;
        key = waiting.removeFirst();
        probe = Objects.requireNonNull(probing.get(key));
        underWay++;
      }
      store.head(probe.name, probeTimeoutNs).whenEnded(result -> onProbed(key, result));
      synchronized (lock) {
        beginning = false;
      }
    }
  }

  private void onProbed(ObjectKey key, StoreResult result) {
    Presence found =
        switch (result) {
          case StoreResult.Done _ -> Presence.PRESENT;
          case StoreResult.Absent _ -> Presence.ABSENT;
          // As before; whoever asks again has it probed again.
          default -> Presence.UNKNOWN;
        };
    if (found != Presence.UNKNOWN) {
      known.put(key, found);
    }
    Probe probe;
    synchronized (lock) {
      underWay--;
      probe = Objects.requireNonNull(probing.remove(key));
    }
    probe.waiting.forEach(one -> one.accept(found));
    beginProbes();
  }
}

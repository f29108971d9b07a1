package io.kvtier.tiers.object;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import com.github.benmanes.caffeine.cache.Ticker;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executor;

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

  private final Cache<ObjectKey, Presence> known;
  private final ObjectStore store;
  private final int probesMax;
  private final int waitingMax;
  private final long probeTimeoutNs;

  private final Object lock = new Object();
  private final Map<ObjectKey, String> probing = new LinkedHashMap<>();
  private final ArrayDeque<ObjectKey> waiting = new ArrayDeque<>();
  private int underWay;

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

  PresenceCache(
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

  /** About how many keys are known. */
  public long size() {
    return known.estimatedSize();
  }

  /** Drops at once what is too much or too old. */
  void cleanUp() {
    known.cleanUp();
  }

  /**
   * Has the presence of objects found out in the background, as far as it is not known or being
   * found out. Beyond the bound on those that wait, keys are left unknown.
   *
   * @param names of the objects, by their keys
   * @return how many are on their way now
   */
  public int probe(Map<ObjectKey, String> names) {
    synchronized (lock) {
      for (Map.Entry<ObjectKey, String> entry : names.entrySet()) {
        if (waiting.size() == waitingMax) {
          break;
        }
        if (lookup(entry.getKey()) == Presence.UNKNOWN
            && probing.putIfAbsent(entry.getKey(), entry.getValue()) == null) {
          waiting.addLast(entry.getKey());
        }
      }
    }
    beginProbes();
    synchronized (lock) {
      return probing.size();
    }
  }

  private void beginProbes() {
    while (true) {
      ObjectKey key;
      String name;
      synchronized (lock) {
        if (underWay == probesMax || waiting.isEmpty()) {
          return;
        }
        key = waiting.removeFirst();
        name = probing.getOrDefault(key, "");
        underWay++;
      }
      store.head(name, probeTimeoutNs).whenEnded(result -> onProbed(key, result));
    }
  }

  private void onProbed(ObjectKey key, StoreResult result) {
    switch (result) {
      case StoreResult.Done _ -> present(key);
      case StoreResult.Absent _ -> absent(key);
      // Unknown as before; whoever asks again has it probed again.
      default -> {}
    }
    synchronized (lock) {
      underWay--;
      probing.remove(key);
    }
    beginProbes();
  }
}

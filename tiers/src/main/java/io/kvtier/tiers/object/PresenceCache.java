package io.kvtier.tiers.object;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import com.github.benmanes.caffeine.cache.Ticker;
import io.kvtier.tiers.ledger.PresenceLedger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is known of the presence of objects without asking: what was stored, loaded or looked for
 * lately, by this node. It may be wrong, for others write and delete too: a present one is then a
 * miss, an absent one is asked for again after a while.
 *
 * <p>Bounded by bytes, with what a key was measured to take. Lookups never wait. What is not known
 * can be probed in the background; the probes of a key that come together are one.
 *
 * <p>With a {@link PresenceLedger}, what is present outlives this process, and the bound on memory:
 * the newest entries are there again after a while, and a probe asks the ledger before it asks the
 * store.
 */
public final class PresenceCache {
  private static final Logger LOG = LoggerFactory.getLogger(PresenceCache.class);

  /** After so many calls in a row that were not answered it is said that none is. */
  private static final int FAILURES_TOLD = 3;

  /** Where nothing was asked for so long, nobody knows whether the store still does not answer. */
  private static final long TROUBLE_NS_MAX = TimeUnit.MINUTES.toNanos(1);

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
  private static final class Probe {
    private final String name;
    private final List<Consumer<Presence>> waiting = new ArrayList<>(1);

    /** Whether somebody wants to know it from the store itself. */
    private boolean isOfStore;

    Probe(String name) {
      this.name = name;
    }
  }

  /**
   * What is known of a key. From 0 on it is present, and was noted in the ledger in that part of
   * time. In a byte, for which there are objects enough: no key needs one of its own.
   */
  private static final byte ABSENT = -1;

  private static final byte NOTED_LONG_AGO = Byte.MAX_VALUE;

  /** What is seen again is noted again as often as that before the ledger is too old. */
  private static final int NOTES_AN_AGE = 4;

  private final Cache<ObjectKey, Byte> known;
  private final Ticker ticker;
  private final @Nullable PresenceLedger ledger;
  private final long noteNs;
  private final ObjectProbe store;
  private final int probesMax;
  private final int waitingMax;
  private final long probeTimeoutNs;

  private final Object lock = new Object();
  private final Map<ObjectKey, Probe> probing = new LinkedHashMap<>();
  private final ArrayDeque<ObjectKey> waiting = new ArrayDeque<>();
  private int underWay;
  private boolean beginning;
  private int failures;
  private long failedNs;
  private String trouble = "";

  /**
   * How much is known, and for how long.
   *
   * @param bytesMax of the heap
   * @param presentNs for how long a present object is taken for present after the last news of it
   * @param absentNs for how long an absent object is taken for absent: shorter, as other nodes
   *     store what this node misses
   * @param probesMax heads under way; sixteen times as many keys may wait for theirs
   */
  public record Options(
      long bytesMax, long presentNs, long absentNs, int probesMax, long probeTimeoutNs) {
    public Options {
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
    }

    private long keysMax() {
      return bytesMax / BYTES_PER_KEY;
    }
  }

  /**
   * Knows nothing yet.
   *
   * @param ledger started by this, closed by the caller; null for none
   */
  public PresenceCache(ObjectProbe store, Options options, @Nullable PresenceLedger ledger) {
    this(
        store,
        options,
        ledger,
        Ticker.systemTicker(),
        java.util.concurrent.ForkJoinPool.commonPool());
  }

  /** With a clock of the caller's, and an executor for what the cache does beside. */
  public PresenceCache(
      ObjectProbe store,
      Options options,
      @Nullable PresenceLedger ledger,
      Ticker ticker,
      Executor executor) {
    this.store = store;
    this.ticker = ticker;
    this.ledger = ledger;
    noteNs =
        ledger == null
            ? Long.MAX_VALUE
            : Math.max(1, TimeUnit.MILLISECONDS.toNanos(ledger.ageMsMax()) / NOTES_AN_AGE);
    probesMax = options.probesMax;
    probeTimeoutNs = options.probeTimeoutNs;
    waitingMax = 16 * probesMax;
    known =
        Caffeine.newBuilder()
            .maximumSize(options.keysMax())
            .expireAfter(
                Expiry.<ObjectKey, Byte>writing((_, what) ->
                    java.time.Duration.ofNanos(
                        what == ABSENT ? options.absentNs : options.presentNs)))
            .ticker(ticker)
            .executor(executor)
            .build();
    if (ledger != null) {
      ledger.start(options.keysMax(), (high, low) -> presentByLedger(new ObjectKey(high, low)));
    }
  }

  /** What is known; at once. */
  public Presence lookup(ObjectKey key) {
    Byte what = known.getIfPresent(key);
    return what == null ? Presence.UNKNOWN : what == ABSENT ? Presence.ABSENT : Presence.PRESENT;
  }

  /** It was seen there. */
  public void present(ObjectKey key) {
    byte noted = (byte) Math.floorMod(ticker.read() / noteNs, NOTED_LONG_AGO);
    Byte before = known.asMap().put(key, noted);
    if (ledger != null && (before == null || before != noted)) {
      ledger.present(key.high(), key.low());
    }
  }

  /** It was seen not to be there. */
  public void absent(ObjectKey key) {
    Byte before = known.asMap().put(key, ABSENT);
    if (ledger != null && (before == null || before != ABSENT)) {
      ledger.forget(key.high(), key.low());
    }
  }

  /** Whatever was known of it no longer holds. */
  public void forget(ObjectKey key) {
    known.invalidate(key);
    if (ledger != null) {
      ledger.forget(key.high(), key.low());
    }
  }

  /** Unless there is later news. */
  private void presentByLedger(ObjectKey key) {
    known.asMap().putIfAbsent(key, NOTED_LONG_AGO);
  }

  /** Nothing that was known holds any longer. */
  public void forgetAll() {
    if (ledger != null) {
      ledger.forgetAll();
    }
    known.invalidateAll();
  }

  /** The most questions that are under way; sixteen times as many can wait. */
  public int probesMax() {
    return probesMax;
  }

  /** About how many keys are known. */
  public long size() {
    return known.estimatedSize();
  }

  /** Drops at once what is too much or too old. */
  void cleanUp() {
    known.cleanUp();
  }

  /** Whether the store has not answered for a while. */
  public boolean isSilent() {
    synchronized (lock) {
      return failures >= FAILURES_TOLD;
    }
  }

  /**
   * Has the presence of an object found out in the background, unless it is known or being found
   * out, and tells: what is found, or UNKNOWN where the store does not answer in time.
   *
   * @param name of the object
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
    boolean isNew;
    synchronized (lock) {
      Probe probe = probing.get(key);
      isNew = probe == null;
      if (probe == null) {
        if (probing.size() - underWay >= waitingMax) {
          return false;
        }
        probe = new Probe(name);
        probing.put(key, probe);
      }
      if (whenFound != null) {
        probe.waiting.add(whenFound);
      }
    }
    if (isNew
        && (ledger == null
            || !ledger.find(key.high(), key.low(), found -> onLookedUp(key, found)))) {
      askStore(key);
    }
    return true;
  }

  /**
   * Has the store asked for an object, whatever is known of it, and tells what is found, or UNKNOWN
   * where the store does not answer in time.
   *
   * @param name of the object
   * @param whenFound called on any thread
   * @return false when too many wait already: nobody will be told
   */
  public boolean confirm(ObjectKey key, String name, Consumer<Presence> whenFound) {
    boolean isNew;
    synchronized (lock) {
      Probe probe = probing.get(key);
      isNew = probe == null;
      if (probe == null) {
        if (probing.size() - underWay >= waitingMax) {
          return false;
        }
        probe = new Probe(name);
        probing.put(key, probe);
      }
      probe.isOfStore = true;
      probe.waiting.add(whenFound);
    }
    if (isNew) {
      askStore(key);
    }
    return true;
  }

  private void onLookedUp(ObjectKey key, boolean found) {
    boolean isOfStore;
    synchronized (lock) {
      isOfStore = Objects.requireNonNull(probing.get(key)).isOfStore;
    }
    if (!found || isOfStore) {
      askStore(key);
      return;
    }
    presentByLedger(key);
    tell(key, Presence.PRESENT);
  }

  private void askStore(ObjectKey key) {
    synchronized (lock) {
      waiting.addLast(key);
    }
    beginProbes();
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

  /**
   * Why the store has not answered for some questions in a row; empty where it has, or where it is
   * some time ago that it was asked.
   */
  public String trouble() {
    synchronized (lock) {
      return failures < FAILURES_TOLD || ticker.read() - failedNs > TROUBLE_NS_MAX ? "" : trouble;
    }
  }

  /**
   * Hears how the store took a question: whether it answers at all. A node that only looks for
   * objects would hear of a store that is gone in no other way; so this says it, once, and once
   * when it is over.
   */
  public void heard(StoreResult result) {
    boolean isAnswer =
        result instanceof StoreResult.Done
            || result instanceof StoreResult.Absent
            || result instanceof StoreResult.Page;
    synchronized (lock) {
      if (isAnswer) {
        if (failures >= FAILURES_TOLD) {
          LOG.info("{} answers questions again", store.describe());
        }
        failures = 0;
        trouble = "";
      } else if (!(result instanceof StoreResult.Cancelled)) {
        trouble = result.words();
        failedNs = ticker.read();
        if (++failures == FAILURES_TOLD) {
          LOG.warn(
              "{} does not answer: {}. Until it answers, blocks that are only there are not found",
              store.describe(),
              trouble);
        }
      }
    }
  }

  private void onProbed(ObjectKey key, StoreResult result) {
    heard(result);
    Presence found =
        switch (result) {
          case StoreResult.Done _ -> Presence.PRESENT;
          case StoreResult.Absent _ -> Presence.ABSENT;
          // As before; whoever asks again has it probed again.
          default -> Presence.UNKNOWN;
        };
    switch (found) {
      case PRESENT -> present(key);
      case ABSENT -> absent(key);
      case UNKNOWN -> {}
    }
    synchronized (lock) {
      underWay--;
    }
    tell(key, found);
    beginProbes();
  }

  /** The probe is over. */
  private void tell(ObjectKey key, Presence found) {
    Probe probe;
    synchronized (lock) {
      probe = Objects.requireNonNull(probing.remove(key));
    }
    probe.waiting.forEach(one -> one.accept(found));
  }
}

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
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Remembers which objects are there and which are not, from the latest stores, loads and searches
 * of this node. An entry may be wrong, because other nodes write and delete, too. Then a present
 * object is a miss, and an absent object is asked for again after a while.
 *
 * <p>The entries are bounded by bytes: each key counts with its measured size. Lookups never wait.
 * Unknown keys can be probed in the background. Simultaneous probes of a key are one probe.
 *
 * <p>With a {@link PresenceLedger}, present keys outlive this process, and may exceed the bound on
 * memory. The newest keys are loaded at the start, and a probe asks the ledger before the store.
 */
public final class PresenceCache implements KnownBlocks {
  private static final Logger LOG = LoggerFactory.getLogger(PresenceCache.class);

  /**
   * The calls in a row without an answer after which the log says that the store does not answer.
   */
  private static final int FAILURES_TOLD = 3;

  /** How long the last failure counts as trouble of the store. */
  private static final long TROUBLE_NS_MAX = TimeUnit.MINUTES.toNanos(1);

  /**
   * The heap that an entry takes: Caffeine's node with its key, and its shares of the table and of
   * the policy's sketch. A test measures an entry, and fails if this number is too small.
   */
  public static final int BYTES_PER_KEY = 160;

  /** Whether an object is there. */
  public enum Presence {
    PRESENT,
    ABSENT,
    UNKNOWN
  }

  /** A question that is under way, and the callers that wait for its answer. */
  private static final class Probe {
    private final String name;
    private final List<Consumer<Presence>> waiting = new ArrayList<>(1);

    /** Whether only the store may answer. */
    private boolean isOfStore;

    Probe(String name) {
      this.name = name;
    }
  }

  /**
   * The value of an absent key. The value of a present key is 0 or more: the part of time in which
   * the key was noted in the ledger. Java shares the objects of all bytes, so that no key needs an
   * object of its own.
   */
  private static final byte ABSENT = -1;

  private static final byte NOTED_LONG_AGO = Byte.MAX_VALUE;

  /** How often a key that is seen again and again is noted before its first note is too old. */
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
   * How much a cache remembers, and for how long.
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
   * An empty cache.
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

  /** With a clock of the caller's, and an executor for the cache's upkeep. */
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

  /** Looks a key up, without waiting. */
  @Override
  public Presence lookup(ObjectKey key) {
    Byte what = known.getIfPresent(key);
    return what == null ? Presence.UNKNOWN : what == ABSENT ? Presence.ABSENT : Presence.PRESENT;
  }

  /** The object was seen. */
  @Override
  public void present(ObjectKey key) {
    byte noted = (byte) Math.floorMod(ticker.read() / noteNs, NOTED_LONG_AGO);
    Byte before = known.asMap().put(key, noted);
    if (ledger != null && (before == null || before != noted)) {
      ledger.present(key.high(), key.low());
    }
  }

  /** The object was missing. */
  @Override
  public void absent(ObjectKey key) {
    Byte before = known.asMap().put(key, ABSENT);
    if (ledger != null && (before == null || before != ABSENT)) {
      ledger.forget(key.high(), key.low());
    }
  }

  /** Forgets a key. */
  @Override
  public void forget(ObjectKey key) {
    known.invalidate(key);
    if (ledger != null) {
      ledger.forget(key.high(), key.low());
    }
  }

  /** Enters a key of the ledger, unless there is later news. */
  private void presentByLedger(ObjectKey key) {
    known.asMap().putIfAbsent(key, NOTED_LONG_AGO);
  }

  /** Forgets all keys. */
  public void forgetAll() {
    if (ledger != null) {
      ledger.forgetAll();
    }
    known.invalidateAll();
  }

  /** The most questions that are under way; sixteen times as many can wait. */
  @Override
  public int probesMax() {
    return probesMax;
  }

  /** About how many keys are known. */
  public long size() {
    return known.estimatedSize();
  }

  /** Drops at once the entries that are too many or too old. */
  void cleanUp() {
    known.cleanUp();
  }

  /** Whether the store has not answered for a while. */
  @Override
  public boolean isSilent() {
    synchronized (lock) {
      return failures >= FAILURES_TOLD;
    }
  }

  /**
   * Asks in the background whether an object is there, unless the answer is known or under way. The
   * answer is UNKNOWN if the store does not answer in time.
   *
   * @param name of the object
   * @param whenFound called on any thread; at once if the answer is known
   * @return false if too many questions wait: there will be no answer
   */
  @Override
  public boolean probe(ObjectKey key, BlockKey name, @Nullable Consumer<Presence> whenFound) {
    return probe(key, name::ofObject, whenFound);
  }

  boolean probe(ObjectKey key, Supplier<String> name, @Nullable Consumer<Presence> whenFound) {
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
        probe = new Probe(name.get());
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
   * Asks the store whether an object is there, even if the answer is known. The answer is UNKNOWN
   * if the store does not answer in time.
   *
   * @param name of the object
   * @param whenFound called on any thread
   * @return false if too many questions wait: there will be no answer
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
        // A store may answer at once, which calls this method again: this loop then does the rest.
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
   * Why the store has not answered the last questions; empty if it has, or has not been asked for
   * some time.
   */
  public String trouble() {
    synchronized (lock) {
      return failures < FAILURES_TOLD || ticker.read() - failedNs > TROUBLE_NS_MAX ? "" : trouble;
    }
  }

  /**
   * Counts questions that the store does not answer. The log says once that the store does not
   * answer, and once that it answers again: a node that only searches objects has no other sign.
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
          // The next question probes the object again.
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

  /** Ends a probe. */
  private void tell(ObjectKey key, Presence found) {
    Probe probe;
    synchronized (lock) {
      probe = Objects.requireNonNull(probing.remove(key));
    }
    probe.waiting.forEach(one -> one.accept(found));
  }
}

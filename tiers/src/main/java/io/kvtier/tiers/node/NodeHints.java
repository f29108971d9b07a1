package io.kvtier.tiers.node;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import com.github.benmanes.caffeine.cache.Ticker;
import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.KnownBlocks;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The nodes that have blocks in their memory, from their latest answers. Each entry is a hint: the
 * node may have evicted the block since. Then a fetch is a miss, and the hint is forgotten.
 *
 * <p>All nodes are asked about a block, and the questions of one round of the index go out
 * together. The hints are bounded in number. Safe for several threads.
 */
public class NodeHints implements KnownBlocks {
  /** The most blocks about which nodes are asked at a time. */
  private static final int QUESTIONS_MAX = 4096;

  private static final int HINTS_MAX = 1 << 18;

  /** The time after which a lookup asks the nodes again. */
  private static final long PRESENT_NS = TimeUnit.SECONDS.toNanos(30);

  /**
   * The further time for which fetches may use a hint: a fetch follows a lookup that found the
   * hint, and may wait.
   */
  private static final long FETCH_NS = TimeUnit.SECONDS.toNanos(60);

  private static final long ABSENT_NS = TimeUnit.SECONDS.toNanos(1);
  private static final long NOWHERE = Holders.NONE;

  /**
   * The last answers about a block.
   *
   * @param holders the nodes that have the block, as {@link Holders}; {@link #NOWHERE}: none has it
   * @param toldNs the time of the last answer
   */
  private record Hint(long holders, long toldNs) {
    /** How long the hint is kept from now on. */
    long keptNs(long nowNs) {
      return holders == NOWHERE ? ABSENT_NS : Math.max(0, PRESENT_NS + FETCH_NS - (nowNs - toldNs));
    }
  }

  private final Cache<ObjectKey, Hint> known;
  private final Ticker ticker;

  private final Map<ObjectKey, Question> open = new HashMap<>();
  private List<Question> collected = new ArrayList<>();

  /** The sequence of the questions that are asked now. Confined to the index. */
  private long sequence = Question.ALONE;

  private long sequences;
  private Consumer<List<Question>> asker = _ -> {};

  /** No hints, on the machine's clock. */
  public NodeHints() {
    this(Ticker.systemTicker(), java.util.concurrent.ForkJoinPool.commonPool());
  }

  /** No hints, with a clock and with an executor for the upkeep. */
  public NodeHints(Ticker ticker, Executor executor) {
    this.ticker = ticker;
    known =
        Caffeine.newBuilder()
            .maximumSize(HINTS_MAX)
            .expireAfter(
                Expiry.<ObjectKey, Hint>writing(
                    (_, hint) -> Duration.ofNanos(hint.keptNs(ticker.read()))))
            .ticker(ticker)
            .executor(executor)
            .build();
  }

  /** Sets who asks the nodes; called before the first question. */
  void askWith(Consumer<List<Question>> reader) {
    asker = reader;
  }

  // ---- for the index

  @Override
  public Presence lookup(ObjectKey key) {
    Hint hint = known.getIfPresent(key);
    if (hint == null) {
      return Presence.UNKNOWN;
    }
    if (hint.holders == NOWHERE) {
      return Presence.ABSENT;
    }
    return ticker.read() - hint.toldNs < PRESENT_NS ? Presence.PRESENT : Presence.UNKNOWN;
  }

  private void put(ObjectKey key, long holders) {
    known.put(key, new Hint(holders, ticker.read()));
  }

  /** Does nothing: the reader knows from which node the block came. */
  @Override
  public void present(ObjectKey key) {}

  @Override
  public void absent(ObjectKey key) {
    put(key, NOWHERE);
  }

  @Override
  public void forget(ObjectKey key) {
    known.invalidate(key);
  }

  @Override
  public boolean probe(ObjectKey key, BlockKey name, @Nullable Consumer<Presence> whenFound) {
    Presence presence = lookup(key);
    if (presence != Presence.UNKNOWN) {
      if (whenFound != null) {
        whenFound.accept(presence);
      }
      return true;
    }
    synchronized (open) {
      Question question = open.get(key);
      if (question == null) {
        if (open.size() >= QUESTIONS_MAX) {
          return false;
        }
        question = new Question(key, name, sequence);
        open.put(key, question);
        collected.add(question);
      }
      if (whenFound != null) {
        question.waiting.add(whenFound);
      }
    }
    return true;
  }

  @Override
  public void beginSequence() {
    sequence = ++sequences;
  }

  @Override
  public void endSequence() {
    sequence = Question.ALONE;
  }

  @Override
  public void endRound() {
    List<Question> now;
    synchronized (open) {
      if (collected.isEmpty()) {
        return;
      }
      now = collected;
      collected = new ArrayList<>();
    }
    asker.accept(now);
  }

  @Override
  public int probesMax() {
    return QUESTIONS_MAX;
  }

  @Override
  public boolean isSilent() {
    return false;
  }

  // ---- for readers

  /** The nodes that may have a block, as {@link Holders}. */
  long holders(ObjectKey key) {
    // The lookup before the fetch has counted as the use of the hint.
    Hint hint = known.policy().getIfPresentQuietly(key);
    return hint == null ? NOWHERE : hint.holders;
  }

  /** Notes the answer to a question, and tells it to those who wait. */
  void answer(Question question, Presence presence) {
    if (presence == Presence.PRESENT) {
      put(question.key, question.holders);
    } else if (presence == Presence.ABSENT) {
      put(question.key, NOWHERE);
    }
    List<Consumer<Presence>> waiting;
    synchronized (open) {
      open.remove(question.key);
      waiting = List.copyOf(question.waiting);
    }
    waiting.forEach(one -> one.accept(presence));
  }

  /** One more node has a block. */
  void add(ObjectKey key, int holder) {
    known
        .asMap()
        .computeIfPresent(
            key, (_, hint) -> new Hint(Holders.add(hint.holders, holder), ticker.read()));
  }

  /** A node does not have a block any more. */
  void remove(ObjectKey key, int holder) {
    known.asMap().computeIfPresent(key, (_, hint) -> without(hint, holder));
  }

  private static Hint without(Hint hint, int holder) {
    return new Hint(Holders.remove(hint.holders, holder), hint.toldNs);
  }

  /** Forgets the blocks of a node that has left. Another node can get its number. */
  public void forgetHolder(int holder) {
    for (Map.Entry<ObjectKey, Hint> each : known.asMap().entrySet()) {
      if (Holders.has(each.getValue().holders, holder)) {
        known
            .asMap()
            .computeIfPresent(
                each.getKey(),
                (_, hint) -> {
                  Hint left = without(hint, holder);
                  return left.holders == NOWHERE ? null : left;
                });
      }
    }
  }

  /** A node has started anew, without its blocks or with others. */
  void forgetAll() {
    known.invalidateAll();
  }
}

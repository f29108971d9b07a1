package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.ObjectProbe;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.LongPredicate;
import org.jspecify.annotations.Nullable;

/**
 * An object tier without objects: a write ends with the status that the test sets, a round later.
 */
final class StubObjects {
  /** The status of the writes from now on. */
  Status answer = Status.OK;

  /** The commands of operators. */
  final List<String> commands = new ArrayList<>();

  /** How often the tier was asked to take a block. */
  int asked;

  /** How often the tier was asked for a block. */
  int loads;

  /** The answer to a question about an object. */
  StoreResult head = new StoreResult.Absent();

  /** The objects that must be deleted. */
  final HeldDeletions deletions = new HeldDeletions();

  /** The keys that have objects, whatever {@link #head} says; null: {@link #head} counts. */
  @Nullable LongPredicate has;

  /** How often the tier was asked whether it has an object. */
  int heads;

  /** The objects that are known to exist. */
  final PresenceCache presence;

  StubObjects() {
    this(1);
  }

  /** An object tier with a maximum of questions under way. */
  StubObjects(int probesMax) {
    presence =
        new PresenceCache(
            new Heads(),
            new PresenceCache.Options(1 << 20, 1L << 40, 1L << 40, probesMax, 1L << 40),
            null);
  }

  private String lookedFor = "";

  /** The pipeline of the tier. */
  final IndexHarness.InlinePipeline pipeline =
      new IndexHarness.InlinePipeline(transfer -> transfer.status = run(transfer));

  private Status run(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.LOAD) {
      loads++;
      return Status.MISS;
    }
    asked++;
    return answer;
  }

  /** The tier as the index is given it, with an admission policy. */
  ObjectParts parts(String admission) {
    return new ObjectParts(
        new ObjectParts.Traffic(pipeline, 8, () -> true, () -> true),
        new ObjectParts.Contents(presence, deletions, () -> null, null),
        admission,
        1 << 20,
        words -> {
          commands.add(String.join(" ", words));
          return new OperatorAnswer(Status.OK, "");
        },
        Map::of,
        () -> {});
  }

  private static long keyOf(String name) {
    Transfer named = new Transfer(0);
    if (!ObjectNames.readBlock(name, named)) {
      throw new IllegalStateException("'" + name + "' names no block");
    }
    return MemorySegment.ofArray(named.key).get(ValueLayout.JAVA_LONG_UNALIGNED, 0);
  }

  /** A call that began some time ago finds the object that was looked for last. */
  void seeLookedFor() {
    Transfer named = new Transfer(0);
    if (!ObjectNames.readBlock(lookedFor, named)) {
      throw new IllegalStateException("no block was looked for, but '" + lookedFor + "'");
    }
    presence.present(ObjectKey.of(named));
  }

  /** Deletions, which are done at once unless a test holds them. */
  static final class HeldDeletions implements Deletions {
    boolean isHeld;
    boolean isFull;
    private final List<String> pending = new ArrayList<>();
    private long queued;
    private long done;

    /** Does all deletions that wait. */
    void end() {
      pending.clear();
      done = queued;
    }

    @Override
    public boolean delete(String name) {
      if (isFull) {
        return false;
      }
      queued++;
      pending.add(name);
      if (!isHeld) {
        end();
      }
      return true;
    }

    @Override
    public boolean deleteAll(String prefix) {
      return delete(prefix);
    }

    @Override
    public long queued() {
      return queued;
    }

    @Override
    public long done() {
      return done;
    }

    @Override
    public boolean isPending(String name) {
      return pending.contains(name);
    }
  }

  private final class Heads implements ObjectProbe {
    @Override
    public StoreCall head(String name, long timeoutNs) {
      lookedFor = name;
      heads++;
      LongPredicate there = has;
      if (there == null) {
        return StoreCall.of(head);
      }
      boolean isThere = there.test(keyOf(name));
      return StoreCall.of(isThere ? new StoreResult.Done(0) : new StoreResult.Absent());
    }

    @Override
    public String describe() {
      return "a test's store";
    }
  }
}

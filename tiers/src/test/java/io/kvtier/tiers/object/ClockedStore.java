package io.kvtier.tiers.object;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * A store whose objects were written by a clock of the test's, over another one; and which fails,
 * or has something else happen first, where the test wants that.
 */
public final class ClockedStore implements ObjectStore {
  /** Answers in the store's place, or null; by the verb and the name or prefix. */
  public interface Meddler extends BiFunction<String, String, @Nullable StoreResult> {}

  private final ObjectStore store;
  private final LongSupplier clockMs;
  private final Map<String, Long> written = new ConcurrentHashMap<>();
  private volatile Meddler meddler = (_, _) -> null;
  private volatile Predicate<String> isLost = _ -> false;

  public ClockedStore(ObjectStore store, LongSupplier clockMs) {
    this.store = store;
    this.clockMs = clockMs;
  }

  public void meddle(Meddler wanted) {
    meddler = wanted;
  }

  /** Has calls done whose callers never hear of it: they expire; by the verb. */
  public void loseAnswers(Predicate<String> wanted) {
    isLost = wanted;
  }

  /** When an object was written. */
  public long writtenMs(String name) {
    return written.getOrDefault(name, clockMs.getAsLong());
  }

  private interface Begin {
    StoreCall call();
  }

  private StoreCall ask(String verb, String name, Begin begin, UnaryOperator<StoreResult> answer) {
    StoreResult instead = meddler.apply(verb, name);
    if (instead != null) {
      return StoreCall.of(instead);
    }
    StoreCall inner = begin.call();
    StoreCall outer = new StoreCall();
    outer.onAbort(inner::cancel);
    inner.whenEnded(result -> {
      StoreResult heard = answer.apply(result);
      outer.end(isLost.test(verb) ? new StoreResult.Expired() : heard);
    });
    return outer;
  }

  @Override
  public StoreCall put(String name, List<MemorySegment> parts, boolean ifAbsent, long timeoutNs) {
    long begunMs = clockMs.getAsLong();
    return ask(
        "put",
        name,
        () -> store.put(name, parts, ifAbsent, timeoutNs),
        result -> {
          if (result instanceof StoreResult.Done) {
            written.put(name, begunMs);
          }
          return result;
        });
  }

  @Override
  public StoreCall get(String name, long offset, List<MemorySegment> parts, long timeoutNs) {
    return ask(
        "get", name, () -> store.get(name, offset, parts, timeoutNs), UnaryOperator.identity());
  }

  @Override
  public StoreCall head(String name, long timeoutNs) {
    return ask("head", name, () -> store.head(name, timeoutNs), UnaryOperator.identity());
  }

  @Override
  public StoreCall list(String prefix, String after, int max, long timeoutNs) {
    return ask(
        "list",
        prefix,
        () -> store.list(prefix, after, max, timeoutNs),
        result ->
            result instanceof StoreResult.Page(List<StoredObject> objects, boolean more)
                ? new StoreResult.Page(objects.stream().map(this::clocked).toList(), more)
                : result);
  }

  /** What is being written while it is listed is as young as can be. */
  private StoredObject clocked(StoredObject object) {
    return new StoredObject(object.name(), object.bytes(), writtenMs(object.name()));
  }

  @Override
  public StoreCall delete(List<String> names, long timeoutNs) {
    return ask(
        "delete",
        names.getFirst(),
        () -> {
          written.keySet().removeAll(names);
          return store.delete(names, timeoutNs);
        },
        UnaryOperator.identity());
  }

  @Override
  public StoreCall removeUnfinished(long beganBeforeMs, long timeoutNs) {
    return ask(
        "removeUnfinished",
        "",
        () -> store.removeUnfinished(0, timeoutNs),
        UnaryOperator.identity());
  }

  @Override
  public String describe() {
    return store.describe();
  }

  @Override
  public void close() {
    store.close();
  }
}

package io.kvtier.tiers.object;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Deletes on a thread of its own, what waits together in one call. What fails is tried again until
 * it is done.
 */
public final class ObjectDeletions implements Deletions, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectDeletions.class);

  private static final int WAITING_MAX = 1 << 16;
  private static final long TIMEOUT_NS = TimeUnit.SECONDS.toNanos(30);
  private static final long REST_MS = 100;
  private static final long REST_MS_MAX = 10_000;

  /**
   * One object, or all whose names start alike.
   *
   * @param isPrefix whether it is the beginning of names
   */
  private record Deletion(String name, boolean isPrefix) {}

  private final ObjectStore store;
  private final Runnable bell;
  private final Consumer<Throwable> defect;
  private final Consumer<List<String>> found;
  private final BlockingQueue<Deletion> waiting = new ArrayBlockingQueue<>(WAITING_MAX);
  private final Map<String, Integer> pending = new HashMap<>();
  private final Thread thread;
  private long queued;
  private volatile long done;
  private volatile boolean closed;

  /**
   * Starts the thread.
   *
   * @param bell rung when something is done
   * @param defect told of what should never be thrown
   * @param found told of the names that {@link #deleteAll} found, some at a time, before they count
   *     as done
   */
  public ObjectDeletions(
      String name,
      ObjectStore store,
      Runnable bell,
      Consumer<Throwable> defect,
      Consumer<List<String>> found) {
    this.store = store;
    this.bell = bell;
    this.defect = defect;
    this.found = found;
    thread = Thread.ofPlatform().daemon().name(name).start(this::work);
  }

  @Override
  public boolean delete(String name) {
    return add(new Deletion(name, false));
  }

  @Override
  public boolean deleteAll(String prefix) {
    return add(new Deletion(prefix, true));
  }

  private boolean add(Deletion deletion) {
    if (!deletion.isPrefix) {
      synchronized (pending) {
        pending.merge(deletion.name, 1, Integer::sum);
      }
    }
    if (!waiting.offer(deletion)) {
      forget(deletion);
      return false;
    }
    queued++;
    return true;
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
    synchronized (pending) {
      return pending.containsKey(name);
    }
  }

  private void forget(Deletion deletion) {
    if (!deletion.isPrefix) {
      synchronized (pending) {
        pending.computeIfPresent(deletion.name, (_, count) -> count == 1 ? null : count - 1);
      }
    }
  }

  private void work() {
    try {
      List<Deletion> batch = new ArrayList<>();
      long count = 0;
      while (!closed) {
        Deletion first = waiting.take();
        batch.clear();
        batch.add(first);
        while (!first.isPrefix && batch.size() < ObjectStore.NAMES_MAX) {
          Deletion next = waiting.peek();
          if (next == null || next.isPrefix) {
            break;
          }
          batch.add(waiting.take());
        }
        run(batch);
        batch.forEach(this::forget);
        count += batch.size();
        done = count;
        bell.run();
      }
    } catch (InterruptedException e) {
      // Closed: what is left will not be done.
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  private void run(List<Deletion> batch) throws InterruptedException {
    long restMs = REST_MS;
    while (true) {
      Deletion first = batch.getFirst();
      StoreResult result =
          first.isPrefix
              ? deleteAllNow(first.name)
              : store
                  .delete(batch.stream().map(Deletion::name).toList(), TIMEOUT_NS)
                  .result()
                  .join();
      if (result instanceof StoreResult.Done) {
        return;
      }
      if (restMs == REST_MS) {
        LOG.warn(
            "{} objects can't be deleted now, tried again until they are: {}",
            batch.size(),
            result.words());
      }
      Thread.sleep(restMs);
      restMs = Math.min(REST_MS_MAX, 2 * restMs);
    }
  }

  private StoreResult deleteAllNow(String prefix) {
    String after = "";
    while (true) {
      StoreResult listed =
          store.list(prefix, after, ObjectStore.NAMES_MAX, TIMEOUT_NS).result().join();
      if (!(listed instanceof StoreResult.Page(List<StoredObject> objects, boolean more))) {
        return listed;
      }
      List<String> names = objects.stream().map(StoredObject::name).toList();
      if (!names.isEmpty()) {
        StoreResult deleted = store.delete(names, TIMEOUT_NS).result().join();
        if (!(deleted instanceof StoreResult.Done)) {
          return deleted;
        }
        found.accept(names);
        after = names.getLast();
      }
      if (!more) {
        return new StoreResult.Done(0);
      }
    }
  }

  @Override
  public void close() {
    closed = true;
    thread.interrupt();
    try {
      // A call that is on its way ends when the store is closed.
      thread.join(TimeUnit.SECONDS.toMillis(1));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

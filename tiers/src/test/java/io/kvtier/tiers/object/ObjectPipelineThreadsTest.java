package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The pipeline on threads of its own, with a store in memory. */
final class ObjectPipelineThreadsTest {
  /** More than is put without a worker. */
  private static final int BLOCK_BYTES = 100_000;

  private final Arena arena = Arena.ofShared();
  private final ObjectTransfers transfers = new ObjectTransfers(arena, BLOCK_BYTES);
  private final FakeStore store = new FakeStore();
  private final AtomicInteger puts = new AtomicInteger();

  @AfterEach
  void close() {
    arena.close();
  }

  private ObjectPipeline pipeline(ObjectStore of, long storeBytesPerSecond) {
    ObjectPipelineOptions usual = ObjectPipelineOptions.defaults();
    return new ObjectPipeline(
        "object-test",
        of,
        new ObjectPipelineOptions(
            new ObjectPipelineOptions.Capacity(usual.capacity().depth(), 1),
            "none",
            new ObjectPipelineOptions.Times(
                TimeUnit.HOURS.toNanos(1), TimeUnit.HOURS.toNanos(1), 0),
            usual.calls(),
            new ObjectPipelineOptions.Bandwidth(0, storeBytesPerSecond),
            usual.breaker(),
            usual.retry()),
        null,
        () -> {},
        defect -> {
          throw new AssertionError(defect);
        });
  }

  private void awaitPuts(int count) throws InterruptedException {
    long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (store.asked.size() < count) {
      assertTrue(System.nanoTime() < endNs, () -> store.asked.size() + " of " + count + " puts");
      Thread.sleep(1);
    }
  }

  @Test
  void changeBandwidth_noCapAnyMore_isSeenBySleepers() throws Exception {
    // A block takes 1,000 s.
    try (ObjectPipeline pipeline = pipeline(store, 100)) {
      assertTrue(pipeline.offer(transfers.store(1)));
      assertTrue(pipeline.offer(transfers.store(2)));
      awaitPuts(1);
      // Long enough for it to fall asleep: where it has not yet, this shows nothing.
      Thread.sleep(50);
      pipeline.changeBandwidth(0, 0);
      awaitPuts(2);
    }
  }

  @Test
  void close_blocksWaitForAWorker_beginsNoneOfThem() throws Exception {
    CountDownLatch closing = new CountDownLatch(1);
    ClockedStore slow = new ClockedStore(store, System::currentTimeMillis);
    slow.meddle((_, _) -> {
      puts.incrementAndGet();
      try {
        assertTrue(closing.await(60, TimeUnit.SECONDS), "is not closed");
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      return null;
    });
    ObjectPipeline pipeline = pipeline(slow, 0);
    for (int number = 0; number < 20; number++) {
      assertTrue(pipeline.offer(transfers.store(number)));
    }
    long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (puts.get() == 0) {
      assertTrue(System.nanoTime() < endNs, "nothing is put");
      Thread.sleep(1);
    }
    Thread ends = Thread.ofPlatform().start(pipeline::close);
    // Then it waits for the worker, and has told it that this is the end.
    while (ends.getState() != Thread.State.TIMED_WAITING) {
      assertTrue(System.nanoTime() < endNs, "does not wait for the worker");
      Thread.sleep(1);
    }
    closing.countDown();
    ends.join();
    assertEquals(1, puts.get());
  }
}

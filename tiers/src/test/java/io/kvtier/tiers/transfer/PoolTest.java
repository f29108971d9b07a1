package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** {@link Pool} and {@link Buffers}: what is borrowed is never shared. */
final class PoolTest {
  private static final int THREADS = 4;
  private static final int ROUNDS = 20_000;

  /** Runs work in several threads at once; what it throws fails the test. */
  private static void inThreads(Runnable work) throws Exception {
    try (ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
      List<Future<?>> all = new ArrayList<>();
      for (int i = 0; i < THREADS; i++) {
        all.add(threads.submit(work));
      }
      for (Future<?> each : all) {
        each.get();
      }
    }
  }

  @Test
  void pool_objectThatWasGivenBack_isTakenAgain_andBorrowedObjectsAreNot() {
    Pool<Object> pool = new Pool<>(Object::new);
    Object first = pool.take();
    Object second = pool.take();
    assertNotSame(first, second);
    pool.give(first);
    assertSame(first, pool.take());
    assertNotSame(second, pool.take());
  }

  @Test
  void pool_severalThreads_neverHaveOneObjectAtOnce() throws Exception {
    AtomicInteger made = new AtomicInteger();
    Pool<AtomicInteger> pool =
        new Pool<>(() -> {
          made.incrementAndGet();
          return new AtomicInteger();
        });
    inThreads(() -> {
      for (int i = 0; i < ROUNDS; i++) {
        AtomicInteger users = pool.take();
        assertEquals(1, users.incrementAndGet());
        users.decrementAndGet();
        pool.give(users);
      }
    });
    assertTrue(made.get() <= THREADS, made + " objects");
  }

  @Test
  void buffers_tooSmallABuffer_isReplaced_andALargerOneServesSmallBlocks() {
    Buffers buffers = new Buffers();
    MemorySegment small = buffers.take(8);
    buffers.give(small);
    MemorySegment large = buffers.take(4096);
    assertEquals(4096, large.byteSize());
    buffers.give(large);
    MemorySegment again = buffers.take(8);
    assertEquals(large.address(), again.address());
    assertNotEquals(large.address(), buffers.take(8).address());
  }

  @Test
  void buffers_severalThreads_neverHaveOneBufferAtOnce() throws Exception {
    Buffers buffers = new Buffers();
    inThreads(() -> {
      long own = Thread.currentThread().threadId();
      for (int i = 0; i < ROUNDS; i++) {
        MemorySegment buffer = buffers.take(Long.BYTES << (i % 4));
        buffer.set(ValueLayout.JAVA_LONG, 0, own);
        Thread.onSpinWait();
        assertEquals(own, buffer.get(ValueLayout.JAVA_LONG, 0));
        buffers.give(buffer);
      }
    });
  }
}

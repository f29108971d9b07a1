package io.kvtier.tiers.host;

import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.files.FileErrors;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes the pages of all slabs, in the background: a daemon with much memory is ready long before
 * the kernel has cleared it. Who writes to a page before its turn waits for that page only.
 */
public final class PageTaker implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(PageTaker.class);
  private static final int THREADS_MAX = 16;

  private final SlabStore slabs;
  private final Consumer<Throwable> onFailure;
  private final AtomicInteger next = new AtomicInteger();
  private final AtomicInteger left;
  private final List<Thread> threads = new ArrayList<>();
  private final long start = System.nanoTime();
  private volatile boolean closed;

  /**
   * Starts the threads, which end by themselves.
   *
   * @param onFailure told when a slab's pages can't be had, as the configured size is promised, and
   *     of what should never happen
   */
  public PageTaker(SlabStore slabs, Consumer<Throwable> onFailure) {
    this.slabs = slabs;
    this.onFailure = onFailure;
    left = new AtomicInteger(slabs.slabs());
    // The kernel clears some GB a second on each processor; clients want theirs.
    int half = Math.min(slabs.slabs(), Runtime.getRuntime().availableProcessors() / 2);
    for (int i = 0; i < Math.clamp(half, 1, THREADS_MAX); i++) {
      threads.add(Thread.ofPlatform().daemon().name("kvtier-slabs-" + i).start(this::work));
    }
  }

  private void work() {
    try {
      takeAll();
    } catch (Throwable t) {
      next.set(slabs.slabs());
      onFailure.accept(t);
    }
  }

  private void takeAll() throws IOException {
    for (int slab = next.getAndIncrement();
        slab < slabs.slabs() && !closed;
        slab = next.getAndIncrement()) {
      try {
        slabs.takePages(slab);
      } catch (IOException e) {
        throw new IOException(
            "host.bytes is "
                + ByteSize.words(slabs.slabs() * slabs.slabBytes())
                + ", of which slab "
                + slab
                + " can't be had: "
                + FileErrors.withCure(FileErrors.words(e), "lower host.bytes"),
            e);
      }
      if (left.decrementAndGet() == 0) {
        LOG.info(
            "took {} of memory in {} ms",
            ByteSize.words(slabs.slabs() * slabs.slabBytes()),
            (System.nanoTime() - start) / 1_000_000);
      }
    }
  }

  /** Waits until all pages are taken, or no more will be. */
  public void await() throws InterruptedException {
    for (Thread thread : threads) {
      thread.join();
    }
  }

  /** Ends; the slabs may go after it. */
  @Override
  public void close() {
    closed = true;
    try {
      await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.SharedMemory;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Puts huge pages under the slabs, in the background: copies take less time, and a device needs
 * fewer pieces for a block. What does not get any is as good as before.
 */
public final class HugePages implements AutoCloseable {
  private final SlabStore slabs;
  private final @Nullable PageTaker taker;
  private final Thread thread;
  private volatile boolean closed;
  private volatile long bytes;

  /** Starts the thread, which ends by itself. */
  public HugePages(SlabStore slabs) {
    this(slabs, null);
  }

  /** The same, when all pages are taken. */
  public HugePages(SlabStore slabs, @Nullable PageTaker taker) {
    this.slabs = slabs;
    this.taker = taker;
    thread = Thread.ofPlatform().daemon().name("kvtier-huge-pages").start(this::work);
  }

  private void work() {
    try {
      if (taker != null) {
        taker.await();
      }
    } catch (InterruptedException e) {
      return;
    }
    long made = 0;
    for (int slab = 0; slab < slabs.slabs(); slab++) {
      MemorySegment mapping = slabs.mapping(slab);
      long end = mapping.byteSize() - SharedMemory.HUGE_PAGE_BYTES;
      for (long at = 0; at <= end; at += SharedMemory.HUGE_PAGE_BYTES) {
        if (closed) {
          return;
        }
        if (SharedMemory.makeHuge(mapping, at, SharedMemory.HUGE_PAGE_BYTES)) {
          made += SharedMemory.HUGE_PAGE_BYTES;
          bytes = made;
        }
      }
    }
  }

  /** How much memory has huge pages so far. */
  public long bytes() {
    return bytes;
  }

  /** Waits until all memory was tried. */
  public void await() throws InterruptedException {
    thread.join();
  }

  /** Ends; the slabs may go after it. */
  @Override
  public void close() {
    closed = true;
    thread.interrupt();
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

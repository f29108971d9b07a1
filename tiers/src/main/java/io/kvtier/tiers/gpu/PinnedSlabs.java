package io.kvtier.tiers.gpu;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.IntFunction;

/**
 * Where devices see the slabs of the host tier. A slab is registered with the driver when it is
 * first needed, or before, by who has the time: it takes some 50 ms a GiB. What is registered by
 * one device is so for all, and in all of them at the same address. For any thread.
 */
final class PinnedSlabs {
  private static final long NOT_YET = 0;

  private final IntFunction<MemorySegment> slabs;
  private final AtomicLongArray addresses;
  private int next;

  PinnedSlabs(IntFunction<MemorySegment> slabs, int count) {
    this.slabs = slabs;
    addresses = new AtomicLongArray(count);
  }

  /**
   * Where the devices see a slab.
   *
   * @param gpu that registers it, if need be
   * @throws GpuException when it can't be registered
   */
  long addressOf(int slab, Gpu gpu) {
    long address = addresses.getAcquire(slab);
    return address == NOT_YET ? register(slab, gpu) : address;
  }

  private synchronized long register(int slab, Gpu gpu) {
    long address = addresses.getAcquire(slab);
    if (address == NOT_YET) {
      address = gpu.register(slabs.apply(slab));
      addresses.setRelease(slab, address);
    }
    return address;
  }

  /**
   * Registers one more.
   *
   * @return false when all are
   */
  boolean registerNext(Gpu gpu) {
    if (next == addresses.length()) {
      return false;
    }
    long ignored = addressOf(next, gpu);
    next++;
    return true;
  }

  /** Ends the registrations; no copy may be in flight. */
  synchronized void unregister(Gpu gpu) {
    for (int i = 0; i < addresses.length(); i++) {
      if (addresses.getAndSet(i, NOT_YET) != NOT_YET) {
        gpu.unregister(slabs.apply(i));
      }
    }
  }
}

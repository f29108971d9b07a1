package io.kvtier.tiers.gpu;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;

/** What was taken of a GPU for one purpose, to be given back all together. */
final class GpuResources implements AutoCloseable {
  private final Gpu gpu;
  private final ArrayDeque<Runnable> giveBacks = new ArrayDeque<>();

  GpuResources(Gpu gpu) {
    this.gpu = gpu;
  }

  /** {@link Gpu#allocate}. */
  long allocate(long bytes) {
    long address = gpu.allocate(bytes);
    giveBacks.push(() -> gpu.free(address));
    return address;
  }

  /** {@link Gpu#register}. */
  long register(MemorySegment host) {
    long address = gpu.register(host);
    giveBacks.push(() -> gpu.unregister(host));
    return address;
  }

  /** {@link Gpu#createStream}. */
  GpuStream createStream(boolean urgent) {
    GpuStream stream = gpu.createStream(urgent);
    giveBacks.push(() -> gpu.destroy(stream));
    return stream;
  }

  /** {@link Gpu#createEvent}. */
  GpuEvent createEvent() {
    GpuEvent event = gpu.createEvent();
    giveBacks.push(() -> gpu.destroy(event));
    return event;
  }

  /** Gives it back, what was taken last first. */
  @Override
  public void close() {
    while (!giveBacks.isEmpty()) {
      try {
        giveBacks.pop().run();
      } catch (GpuException _) {
        // What could not be given back goes with the context.
      }
    }
  }
}

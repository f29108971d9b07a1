package io.kvtier.bench;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.host.HugePages;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.ssd.FileDevice;
import io.kvtier.tiers.ssd.SlotHeaderDescriptor;
import io.kvtier.tiers.ssd.SsdEngine;
import io.kvtier.tiers.ssd.SsdListeners;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.SplittableRandom;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Blocks of one size that go between slabs of shared memory and a file through the daemon's own
 * pipeline, as the index would drive it.
 */
final class SsdBlocks implements AutoCloseable {
  private static final long SEED = 1;

  /** Blocks of some time, and the whole process's processor time. */
  record Rate(long bytes, long tookNs, double processorS) {
    double gbps() {
      return bytes / (double) tookNs;
    }

    double processorSPerGb() {
      return processorS / (bytes / 1e9);
    }
  }

  private final int blockBytes;
  private final int depth;
  private final int hostSlots;
  private final int ssdSlots;
  private final int[] checksums;
  private final SlabStore slabs;
  private final FileDevice device;
  private final SsdEngine.Started started;
  private final Deque<Transfer> pool = new ArrayDeque<>();
  private final Semaphore rung = new Semaphore(0);
  private final AtomicReference<@Nullable Throwable> defect = new AtomicReference<>();
  private final SplittableRandom random = new SplittableRandom(SEED);
  private final Consumer<Transfer> settle = this::settle;
  private long moved;
  private int nextSlot;

  /**
   * Fills the slabs, and writes every slot of the file once.
   *
   * @param depth the pipeline's
   */
  SsdBlocks(
      Path directory, SsdEngine engine, int blockBytes, int depth, long hostBytes, long fileBytes)
      throws IOException, InterruptedException {
    this.blockBytes = blockBytes;
    this.depth = depth;
    hostSlots = (int) (hostBytes / blockBytes);
    ssdSlots = (int) (fileBytes / slotBytes());
    checksums = new int[hostSlots];
    slabs = new SlabStore(1, hostBytes);
    device = new FileDevice(directory, 1, fileBytes);
    for (int i = 0; i < hostSlots; i++) {
      MemorySegment block = slabs.mapping(0).asSlice((long) i * blockBytes, blockBytes);
      for (long at = 0; at < blockBytes; at += Long.BYTES) {
        block.set(ValueLayout.JAVA_LONG, at, random.nextLong());
      }
      checksums[i] = Checksums.of(block);
    }
    try (HugePages huge = new HugePages(slabs)) {
      huge.await();
    }
    for (int i = 0; i < depth; i++) {
      pool.add(new Transfer(i));
    }
    started =
        engine.start(
            new SsdEngine.Parts(
                "bench-ssd",
                device,
                BlockCodecs.none(),
                null,
                4,
                depth,
                new SsdListeners(rung::release, TroubleLog.NONE, defect::set)));
    for (int i = 0; i < ssdSlots; i++) {
      go(Transfer.Kind.STORE, i);
    }
    drain();
  }

  private long slotBytes() {
    return (long) SlotHeaderDescriptor.HEADER_BYTES + blockBytes;
  }

  SsdEngine engine() {
    return started.engine();
  }

  boolean isDirect() {
    return device.isDirect();
  }

  /** Stores blocks in slots one behind the other for a while. */
  Rate write(long durationNs) throws InterruptedException {
    long end = System.nanoTime() + durationNs;
    return measure(() -> System.nanoTime() - end < 0, Transfer.Kind.STORE);
  }

  /** Stores blocks as long as the flag stands. */
  Rate writeWhile(AtomicBoolean running) throws InterruptedException {
    return measure(running::get, Transfer.Kind.STORE);
  }

  /** Loads random slots for a while. */
  Rate read(long durationNs) throws InterruptedException {
    long end = System.nanoTime() + durationNs;
    return measure(() -> System.nanoTime() - end < 0, Transfer.Kind.LOAD);
  }

  private Rate measure(BooleanSupplier goOn, Transfer.Kind kind) throws InterruptedException {
    moved = 0;
    double processorBefore = Machine.ownProcessorSeconds();
    long begun = System.nanoTime();
    while (goOn.getAsBoolean()) {
      if (kind == Transfer.Kind.STORE) {
        go(kind, nextSlot);
        nextSlot = (nextSlot + 1) % ssdSlots;
      } else {
        go(kind, random.nextInt(ssdSlots));
      }
    }
    drain();
    long took = System.nanoTime() - begun;
    return new Rate(moved, took, Machine.ownProcessorSeconds() - processorBefore);
  }

  /** Begins a transfer, when one is free. */
  private void go(Transfer.Kind kind, int slot) throws InterruptedException {
    while (pool.isEmpty()) {
      collect();
    }
    Transfer transfer = pool.remove();
    int source = slot % hostSlots;
    transfer.kind = kind;
    transfer.block = slot;
    transfer.keyBytes = BenchKeys.KEY_BYTES;
    BenchKeys.put(MemorySegment.ofArray(transfer.key), 0, SEED, slot);
    transfer.slab = slabs.mapping(0);
    // A load of a slot brings the bytes that its source has: whatever order they come in.
    transfer.slabOffset = (long) source * blockBytes;
    transfer.length = blockBytes;
    transfer.slotBytes = blockBytes;
    transfer.checksum = checksums[source];
    transfer.region = 0;
    transfer.offset = slot * slotBytes();
    if (!started.pipeline().offer(transfer)) {
      throw new IllegalStateException("the pipeline took fewer transfers than its depth " + depth);
    }
  }

  private void drain() throws InterruptedException {
    while (started.pipeline().inFlight() > 0) {
      collect();
    }
  }

  private void collect() throws InterruptedException {
    rung.acquire();
    int _ = rung.drainPermits();
    Throwable thrown = defect.get();
    if (thrown != null) {
      throw new IllegalStateException("the SSD pipeline is broken", thrown);
    }
    int _ = started.pipeline().collect(settle);
  }

  private void settle(Transfer transfer) {
    if (transfer.status != Status.OK) {
      throw new IllegalStateException(
          transfer.kind + " of slot " + transfer.block + " ended with " + transfer.status);
    }
    moved += transfer.length;
    pool.add(transfer);
  }

  @Override
  public void close() {
    started.pipeline().close();
    device.close();
    slabs.close();
  }
}

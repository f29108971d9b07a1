package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Copies blocks between one GPU and the host, or from its siblings, in one direction. Never blocks:
 * copies are submitted, and handed back by {@link #poll}, which also keeps the GPU busy and so must
 * be called again and again while any are in flight. Used by one thread; the engines of both
 * directions may share it, and reach the link's limit both ways only where they don't.
 *
 * <p>Its shape is that of a {@link io.kvtier.tiers.transfer.Pipeline}: offer, collect, in flight; a
 * copy's {@link Copy#tag} is for the transfer that it belongs to.
 *
 * <p>Copies overtake each other. Who needs one before another waits for its end, or gives the
 * second the first's event.
 *
 * <p>An error of the driver ends the engine's work for good, since CUDA's own errors last as long
 * as the process: everything in flight comes back as {@link Status#IO_ERROR}, and so does all that
 * is submitted later.
 */
public final class CopyEngine implements AutoCloseable {
  private final CopyOptions options;
  private final Arena arena = Arena.ofShared();
  private final GpuResources resources;
  private final MemorySegment memory;
  private final long staging;
  private final CopyDirection direction;
  private final CopyLane lane;
  private final ArrayDeque<Copy> refused = new ArrayDeque<>();
  private StrategyTable strategies;
  private @Nullable String fence;

  /**
   * Takes its memory on the device and on the host.
   *
   * @throws GpuException if there is too little memory
   */
  public CopyEngine(
      Gpu gpu, CopyDirection direction, CopyOptions options, StrategyTable strategies) {
    this(gpu, direction, options, strategies, System::nanoTime);
  }

  CopyEngine(
      Gpu gpu,
      CopyDirection direction,
      CopyOptions options,
      StrategyTable strategies,
      LongSupplier clock) {
    this.direction = direction;
    this.options = options;
    this.strategies = strategies;
    memory = arena.allocate(options.slots() * CopyBatch.memoryBytes(options), 4096);
    resources = new GpuResources(gpu);
    try {
      staging = direction == CopyDirection.PEER ? 0 : resources.allocate(options.stagingBytes());
      long address = resources.register(memory);
      lane =
          new CopyLane(
              gpu,
              resources,
              options,
              direction,
              new CopyLane.Memory(staging, memory, address),
              clock);
    } catch (GpuException e) {
      resources.close();
      arena.close();
      throw e;
    }
  }

  /** Which way it copies. */
  public CopyDirection direction() {
    return direction;
  }

  /** Copies from now on choose by this. */
  void use(StrategyTable other) {
    strategies = other;
  }

  /** By what copies choose. */
  public StrategyTable strategies() {
    return strategies;
  }

  /**
   * Takes a copy, which is the engine's until it is handed back.
   *
   * @return false if the engine has as many copies as the options allow; the copy is not taken
   */
  public boolean submit(Copy copy) {
    BlockEncoding encoding = copy.encoding;
    if (encoding != null && encoding.encodedGranuleBytes() > options.slotBytes()) {
      throw new IllegalArgumentException(
          "a granule of " + encoding.encodedGranuleBytes() + " bytes is larger than a slot");
    }
    if (fence != null) {
      if (refused.size() == options.depth()) {
        return false;
      }
      refused.add(copy);
      return true;
    }
    return lane.submit(copy);
  }

  /** Hands every finished copy back, whose taker may submit more; returns how many there were. */
  public int poll(Consumer<Copy> finished) {
    if (fence == null) {
      try {
        return lane.poll(strategies, finished);
      } catch (GpuException e) {
        fence = e.reason();
        settle();
      }
    }
    int count = lane.abandon(finished);
    // Not those that come while these are handed back: that might never end.
    for (int left = refused.size(); left > 0; left--) {
      Copy copy = refused.remove();
      copy.status = Status.IO_ERROR;
      count++;
      finished.accept(copy);
    }
    return count;
  }

  /** How many copies were taken and not handed back. */
  public int inFlight() {
    return lane.inFlight() + refused.size();
  }

  /** Whether the GPU has as many batches as it takes, so that the thread can rest a while. */
  public boolean isFull() {
    return lane.isFull();
  }

  /** Whether all copies wait for events. */
  public boolean isWaiting() {
    return fence == null && lane.isWaiting();
  }

  /** The bytes that a strategy gave to the GPU so far, failed copies included. For any thread. */
  public long bytesBy(CopyStrategy strategy) {
    return lane.launchedBytes(strategy);
  }

  /** Why copying has ended; null while blocks are copied. */
  public @Nullable String fence() {
    return fence;
  }

  /** Nothing may be written any more to memory that is about to be handed back. */
  private void settle() {
    try {
      lane.synchronize();
    } catch (GpuException _) {
      // A GPU that does not answer any more does not write either.
    }
  }

  /** Waits for what the GPU has in hand, and gives the memory back. */
  @Override
  public void close() {
    settle();
    resources.close();
    arena.close();
  }
}

package io.kvtier.tiers.gpu;

import java.util.EnumMap;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One GPU's copies in both directions: {@link io.kvtier.tiers.transfer.Pipeline} for transfers of
 * many blocks at once. The index offers and collects; both never block.
 */
public final class DevicePipeline implements AutoCloseable {
  private final Gpu gpu;
  private final DeviceLane offloads;
  private final DeviceLane onboards;
  private final long stagingBytes;
  private int inFlight;

  DevicePipeline(Gpu gpu, DeviceLane offloads, DeviceLane onboards, long stagingBytes) {
    this.gpu = gpu;
    this.offloads = offloads;
    this.onboards = onboards;
    this.stagingBytes = stagingBytes;
  }

  void start() {
    offloads.start();
    onboards.start();
  }

  /** For who has no threads: one round of both directions. */
  int doWork() {
    return offloads.doWork() + onboards.doWork();
  }

  /**
   * Hands a transfer over.
   *
   * @return false when there is no room: nothing was taken
   */
  public boolean offer(DeviceTransfer transfer) {
    boolean taken =
        (transfer.direction == CopyDirection.OFFLOAD ? offloads : onboards).offer(transfer);
    inFlight += taken ? 1 : 0;
    return taken;
  }

  /** Gives every finished transfer back; returns how many there were. */
  public int collect(Consumer<DeviceTransfer> finished) {
    int count = offloads.collect(finished) + onboards.collect(finished);
    inFlight -= count;
    return count;
  }

  /** Whether {@link #collect} would find any. */
  public boolean hasFinished() {
    return offloads.hasFinished() || onboards.hasFinished();
  }

  /** How many transfers were taken and not given back. */
  public int inFlight() {
    return inFlight;
  }

  /** Why nothing is copied any more; null: it is. From any thread. */
  public @Nullable String fence() {
    String fence = offloads.fence();
    return fence == null ? onboards.fence() : fence;
  }

  /** Which GPU, and what was done; from any thread. */
  public GpuReport report(int regions) {
    return new GpuReport(
        gpu.device(),
        stagingBytes,
        gpu.contextBytes(),
        regions,
        offloads.bytes(),
        onboards.bytes(),
        offloads.errors() + onboards.errors(),
        byStrategy(),
        fence());
  }

  private Map<CopyStrategy, Long> byStrategy() {
    Map<CopyStrategy, Long> bytes = new EnumMap<>(CopyStrategy.class);
    for (CopyStrategy strategy : CopyStrategy.values()) {
      bytes.put(strategy, offloads.bytesBy(strategy) + onboards.bytesBy(strategy));
    }
    return bytes;
  }

  Gpu gpu() {
    return gpu;
  }

  /** Whether nothing copies any more, and memory can be taken from the GPU. */
  boolean hasEnded() {
    return offloads.hasEnded() && onboards.hasEnded();
  }

  @Override
  public void close() {
    offloads.close();
    onboards.close();
  }
}

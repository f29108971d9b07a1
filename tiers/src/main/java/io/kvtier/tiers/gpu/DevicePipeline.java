package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.tiers.numa.NumaHomes;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One GPU's copies in both directions, and from its siblings: {@link
 * io.kvtier.tiers.transfer.Pipeline} for transfers of many blocks at once. The index offers and
 * collects; both never block.
 */
public final class DevicePipeline implements AutoCloseable {
  private final Gpu gpu;
  private final DeviceLane offloads;
  private final DeviceLane onboards;
  private final DeviceLane peers;
  private final List<DeviceLane> lanes;
  private final long stagingBytes;
  private final int home;
  private int inFlight;
  private volatile @Nullable EncodingChoice lastChoice;

  /**
   * A pipeline whose threads are not started yet.
   *
   * @param home the number of the NUMA node among those of the slabs, or {@link NumaHomes#NONE}
   */
  DevicePipeline(
      Gpu gpu,
      DeviceLane offloads,
      DeviceLane onboards,
      DeviceLane peers,
      long stagingBytes,
      int home) {
    this.gpu = gpu;
    this.home = home;
    this.offloads = offloads;
    this.onboards = onboards;
    this.peers = peers;
    lanes = List.of(offloads, onboards, peers);
    this.stagingBytes = stagingBytes;
  }

  /**
   * Starts the threads.
   *
   * @param first what each thread does first
   */
  void start(Runnable first) {
    lanes.forEach(lane -> lane.start(first));
  }

  /** For who has no threads: one round of all lanes. */
  int doWork() {
    return offloads.doWork() + onboards.doWork() + peers.doWork();
  }

  /**
   * Hands a transfer over.
   *
   * @return false if the queue is full; the transfer is not taken
   */
  public boolean offer(DeviceTransfer transfer) {
    DeviceLane lane =
        switch (transfer.direction) {
          case OFFLOAD -> offloads;
          case ONBOARD -> onboards;
          case PEER -> peers;
        };
    boolean taken = lane.offer(transfer);
    inFlight += taken ? 1 : 0;
    return taken;
  }

  /**
   * Announces that copies to the GPU will probably come within a time: then no wake-up is needed.
   */
  public void expectOnboards(long withinNs) {
    onboards.expect(withinNs);
  }

  /** Gives every finished transfer back; returns how many there were. */
  public int collect(Consumer<DeviceTransfer> finished) {
    int count = offloads.collect(finished) + onboards.collect(finished) + peers.collect(finished);
    inFlight -= count;
    return count;
  }

  /** Whether {@link #collect} would find any. */
  public boolean hasFinished() {
    return offloads.hasFinished() || onboards.hasFinished() || peers.hasFinished();
  }

  /** How many transfers were taken and not given back. */
  public int inFlight() {
    return inFlight;
  }

  /** Why copying has ended; null while blocks are copied. From any thread. */
  public @Nullable String fence() {
    for (DeviceLane lane : lanes) {
      String fence = lane.fence();
      if (fence != null) {
        return fence;
      }
    }
    return null;
  }

  /** Whether blocks of a region can be copied to this GPU's without the host. From any thread. */
  public boolean reaches(DeviceRegion source) {
    return peers.fence() == null && source.isSeenBy(gpu);
  }

  /**
   * Chooses the form of blocks that have an encoding. If the speeds were not measured, blocks are
   * encoded.
   *
   * @param runBytes the mean length of the blocks' runs on the GPU
   */
  boolean choosesEncoded(BlockEncoding encoding, int runBytes) {
    FormSpeeds out = offloads.formSpeeds(runBytes);
    FormSpeeds in = onboards.formSpeeds(runBytes);
    if (out == null || in == null) {
      return true;
    }
    EncodingChoice choice = EncodingChoice.of(encoding, out, in);
    lastChoice = choice;
    return choice.isEncoded();
  }

  /** The driver's number of the GPU. */
  public int ordinal() {
    return gpu.device().ordinal();
  }

  /** The GPU's home among those of the slabs, or {@link NumaHomes#NONE}. */
  public int home() {
    return home;
  }

  /** Which GPU, and what was done; from any thread. */
  public GpuReport report(int regions) {
    return new GpuReport(
        gpu.device(),
        new GpuReport.Memory(stagingBytes, gpu.contextBytes()),
        regions,
        new GpuReport.Copied(offloads.bytes(), onboards.bytes(), peers.bytes(), byStrategy()),
        lanes.stream().mapToLong(DeviceLane::errors).sum(),
        lastChoice,
        fence());
  }

  private Map<CopyStrategy, Long> byStrategy() {
    Map<CopyStrategy, Long> bytes = new EnumMap<>(CopyStrategy.class);
    for (CopyStrategy strategy : CopyStrategy.values()) {
      bytes.put(strategy, lanes.stream().mapToLong(lane -> lane.bytesBy(strategy)).sum());
    }
    return bytes;
  }

  Gpu gpu() {
    return gpu;
  }

  /** Whether all copies have ended, so that memory can be taken from the GPU. */
  boolean hasEnded() {
    return lanes.stream().allMatch(DeviceLane::hasEnded);
  }

  @Override
  public void close() {
    lanes.forEach(DeviceLane::close);
  }
}

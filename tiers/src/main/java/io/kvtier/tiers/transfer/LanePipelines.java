package io.kvtier.tiers.transfer;

import java.util.List;
import java.util.function.Consumer;

/**
 * One pipeline for each lane of the first tier, such as a NUMA node, which takes the transfers
 * whose bytes are there. Each pipeline is as deep as all together are meant to be.
 */
public final class LanePipelines implements Pipeline {
  private final Pipeline[] lanes;

  /** A pipeline for each lane, by the lanes' numbers. */
  public LanePipelines(List<? extends Pipeline> lanes) {
    this.lanes = lanes.toArray(Pipeline[]::new);
  }

  @Override
  public boolean offer(Transfer transfer) {
    return lanes[transfer.lane].offer(transfer);
  }

  @Override
  public int collect(Consumer<Transfer> finished) {
    int count = 0;
    for (Pipeline lane : lanes) {
      count += lane.collect(finished);
    }
    return count;
  }

  @Override
  public boolean hasFinished() {
    for (Pipeline lane : lanes) {
      if (lane.hasFinished()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public int inFlight() {
    int count = 0;
    for (Pipeline lane : lanes) {
      count += lane.inFlight();
    }
    return count;
  }

  @Override
  public void close() {
    for (Pipeline lane : lanes) {
      lane.close();
    }
  }
}

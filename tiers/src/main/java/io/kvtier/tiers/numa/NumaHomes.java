package io.kvtier.tiers.numa;

import io.kvtier.protocol.linux.NumaMemory;
import java.io.IOException;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The homes of this daemon: moves threads to the processors of their NUMA nodes, and knows which
 * home a GPU is near. A call that the kernel refuses is logged once, and leaves all as it was. For
 * any thread.
 */
public final class NumaHomes {
  /** No home: a thread stays where the kernel runs it. */
  public static final int NONE = NumaPlan.NONE;

  private static final Logger LOG = LoggerFactory.getLogger(NumaHomes.class);

  private final NumaPlan plan;
  private final NumaFiles files;
  private final NumaCalls calls;
  private final AtomicBoolean isRefused = new AtomicBoolean();

  /** Homes by a plan. */
  public NumaHomes(NumaPlan plan, NumaFiles files, NumaCalls calls) {
    this.plan = plan;
    this.files = files;
    this.calls = calls;
  }

  /** No homes: one node, or a daemon that leaves all to the kernel. */
  public static NumaHomes none() {
    return new NumaHomes(NumaPlan.none(), new NumaFiles(), NumaCalls.LINUX);
  }

  /** The homes on this machine for slabs of one size. */
  public static NumaHomes ofThisMachine(int slabs, long slabBytes) {
    NumaFiles files = new NumaFiles();
    if (files.online().cardinality() < 2) {
      return none();
    }
    NumaTopology topology = files.read(nodesOfOperator());
    NumaHomes homes =
        new NumaHomes(NumaPlan.of(topology, slabs, slabBytes), files, NumaCalls.LINUX);
    for (NumaPlan.Home home : homes.plan.homes()) {
      LOG.info(
          "NUMA node {}: {} of {} slabs, {} processors, GPUs {}",
          home.node(),
          home.slabs(),
          slabs,
          home.cpus().cardinality(),
          home.gpus());
    }
    return homes;
  }

  /** The nodes that the daemon was started for, such as by {@code numactl}; empty: all. */
  public static BitSet nodesOfOperator() {
    try {
      return NumaMemory.nodesOfThread();
    } catch (IOException e) {
      LOG.debug("{}", e.getMessage());
      return new BitSet();
    }
  }

  /** Whether there are homes. */
  public boolean isActive() {
    return plan.isActive();
  }

  /** All homes, by their numbers. */
  public List<NumaPlan.Home> all() {
    return plan.homes();
  }

  /** The home that is planned for a slab. */
  public int ofSlab(int slab) {
    return plan.ofSlab(slab);
  }

  /** The home that a GPU is near; {@link #NONE} if that is not known. */
  public int ofGpu(String pciId) {
    return plan.ofGpu(pciId);
  }

  /** The home with the most slabs. */
  public int main() {
    return plan.main();
  }

  /** The memory of a home that can be taken without a loss for anybody; -1: nobody knows. */
  public long freeBytes(int home) {
    return files.freeBytes(plan.homes().get(home).node());
  }

  /** The calls of the kernel. */
  public NumaCalls calls() {
    return calls;
  }

  /**
   * Has the calling thread run near a home from now on: on all processors of the home that this
   * process may use.
   */
  public void enter(int home) {
    BitSet cpus = home == NONE ? new BitSet() : plan.homes().get(home).cpus();
    if (cpus.isEmpty()) {
      return;
    }
    try {
      calls.setCpus(cpus);
    } catch (IOException e) {
      if (!isRefused.getAndSet(true)) {
        LOG.warn(
            "threads are not kept near their memory: {}: allow the call, or set host.numa to off",
            e.getMessage());
      }
    }
  }
}

package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaPlan;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has each slab's pages come from the NUMA node of its home, and counts where they did come from.
 * Does nothing without homes.
 *
 * <p>A slab prefers its node: if the node has no memory left, the kernel takes pages from another.
 * While its pages are taken, a slab is bound to the node if the node has memory enough, because the
 * kernel then frees pages of files that were not used lately, instead of taking pages from another
 * node. With too little memory a bound slab would make the kernel kill a process.
 *
 * <p>Where the kernel refuses these calls, the pages still come from the home as long as it has
 * any: threads near the home take them.
 */
public final class SlabHomes {
  private static final Logger LOG = LoggerFactory.getLogger(SlabHomes.class);

  /** Pages of a slab that an earlier daemon left, by which its home is found. */
  private static final int SAMPLES = 4;

  /** A node keeps this part of its memory free of bound slabs. */
  private static final int SPARE_PART = 16;

  private final NumaHomes homes;
  private final int[] homeOfSlab;

  /** How many slabs each home has. */
  private final int[] slabsOf;

  private final AtomicIntegerArray beingTaken;

  /** Bytes of pages on each home's node, and last those elsewhere. */
  private final AtomicLongArray taken;

  private volatile String trouble = "";
  private volatile boolean isCounted = true;

  /** Takes the pages of a slab. */
  @FunctionalInterface
  interface Taking {
    /** Takes those that the slab has not yet. */
    void run() throws IOException;
  }

  /** Homes for a number of slabs. */
  public SlabHomes(NumaHomes homes, int slabs) {
    this.homes = homes;
    homeOfSlab = new int[slabs];
    Arrays.setAll(homeOfSlab, homes::ofSlab);
    slabsOf = homes.all().stream().mapToInt(NumaPlan.Home::slabs).toArray();
    beingTaken = new AtomicIntegerArray(homes.all().size());
    taken = new AtomicLongArray(homes.all().size() + 1);
  }

  /**
   * Before any page of a mapping is used.
   *
   * @param isAdopted whether an earlier daemon left the slab: its home is where its pages are
   */
  void prepare(int slab, MemorySegment mapping, boolean isAdopted) {
    if (homes.isActive()) {
      prefer(slab, mapping);
      if (isAdopted) {
        find(slab, mapping);
      }
    }
  }

  private void prefer(int slab, MemorySegment mapping) {
    try {
      homes.calls().prefer(mapping, homes.all().get(homeOfSlab[slab]).node());
    } catch (IOException e) {
      refused(e);
    }
  }

  /** Finds the home of a slab that has pages already. */
  private void find(int slab, MemorySegment mapping) {
    long step = mapping.byteSize() / SAMPLES / SharedMemory.PAGE_BYTES * SharedMemory.PAGE_BYTES;
    int[] counts = new int[homes.all().size()];
    try {
      for (long at = 0; at < step * SAMPLES; at += step) {
        // The kernel knows the nodes of pages that this process has used only.
        var _ = mapping.get(ValueLayout.JAVA_BYTE, at);
      }
      for (int node : homes.calls().nodesOf(mapping.asSlice(0, step * SAMPLES), step)) {
        int home = homeOf(node);
        if (home < counts.length) {
          counts[home]++;
        }
      }
    } catch (IOException e) {
      LOG.debug("{}", e.getMessage());
    }
    int found = homeOfSlab[slab];
    for (int home = 0; home < counts.length; home++) {
      found = counts[home] > counts[found] ? home : found;
    }
    if (found != homeOfSlab[slab]) {
      slabsOf[homeOfSlab[slab]]--;
      slabsOf[found]++;
      homeOfSlab[slab] = found;
      prefer(slab, mapping);
    }
  }

  /** The home of a node's number; the number of homes for another node. */
  private int homeOf(int node) {
    List<NumaPlan.Home> all = homes.all();
    int home = 0;
    while (home < all.size() && all.get(home).node() != node) {
      home++;
    }
    return home;
  }

  /** Takes the pages of a slab; the calling thread stays near the slab's home. */
  void take(int slab, MemorySegment mapping, Taking taking) throws IOException {
    if (!homes.isActive()) {
      taking.run();
      return;
    }
    int home = homeOfSlab[slab];
    homes.enter(home);
    int others = beingTaken.getAndIncrement(home);
    try {
      if (!hasRoom(home, (1L + others) * mapping.byteSize()) || !takeBound(slab, mapping, taking)) {
        taking.run();
      }
    } finally {
      beingTaken.decrementAndGet(home);
    }
    count(mapping);
  }

  private boolean hasRoom(int home, long bytes) {
    return trouble.isEmpty()
        && homes.freeBytes(home) >= bytes + homes.all().get(home).memoryBytes() / SPARE_PART;
  }

  private boolean takeBound(int slab, MemorySegment mapping, Taking taking) {
    try {
      homes.calls().bind(mapping, homes.all().get(homeOfSlab[slab]).node());
    } catch (IOException e) {
      refused(e);
      return false;
    }
    try {
      taking.run();
      return true;
    } catch (IOException e) {
      LOG.debug("slab {} does not fit its NUMA node: {}", slab, e.getMessage());
      return false;
    } finally {
      prefer(slab, mapping);
    }
  }

  private void count(MemorySegment mapping) {
    long step = Math.min(SharedMemory.HUGE_PAGE_BYTES, mapping.byteSize());
    try {
      int[] nodes = homes.calls().nodesOf(mapping, step);
      for (int i = 0; i < nodes.length; i++) {
        long bytes = Math.min(step, mapping.byteSize() - i * step);
        long ignored = taken.addAndGet(homeOf(nodes[i]), bytes);
      }
    } catch (IOException e) {
      isCounted = false;
      LOG.debug("{}", e.getMessage());
    }
  }

  private void refused(IOException e) {
    String why = String.valueOf(e.getMessage());
    if (trouble.isEmpty()) {
      trouble = why;
      LOG.warn(
          "slabs are not bound to NUMA nodes: {}: their memory comes from the NUMA node of the thread"
              + " that touches it first; in a container, allow mbind (docker run --cap-add SYS_NICE,"
              + " or a seccomp profile), or set host.numa to off",
          why);
    }
  }

  /** The home of each slab: the lane of its slots. Valid when all slabs are prepared. */
  public int[] homeOfSlab() {
    return homeOfSlab.clone();
  }

  /** How many homes there are; 1 if there are none, as all slabs are equally near. */
  public int count() {
    return Math.max(1, homes.all().size());
  }

  /** What is where; null without homes. From any thread. */
  public @Nullable NumaReport report(long slabBytes) {
    if (!homes.isActive()) {
      return null;
    }
    List<NumaReport.Node> nodes = new ArrayList<>();
    for (int home = 0; home < homes.all().size(); home++) {
      nodes.add(
          new NumaReport.Node(homes.all().get(home), slabsOf[home] * slabBytes, takenBytes(home)));
    }
    return new NumaReport(nodes, takenBytes(nodes.size()), trouble);
  }

  private long takenBytes(int home) {
    return isCounted ? taken.get(home) : -1;
  }
}

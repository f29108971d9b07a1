package io.kvtier.tiers.numa;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Which NUMA node each slab belongs to, and each GPU. Nodes with slabs are called homes here, and
 * have numbers from 0.
 *
 * <p>Each home gets slabs by the number of GPUs that are near it, up to three quarters of its
 * memory. Homes without a GPU get the rest. Without any GPU all homes get equally many. Homes take
 * their turns in the order of slabs, so that each stretch of slabs, such as a tenant's, has all
 * homes in the same proportion. A slab is on one node as a whole: pages of several nodes in turn
 * would all come to one of them when the kernel makes a huge page of them.
 */
public final class NumaPlan {
  /** No home. */
  public static final int NONE = -1;

  /**
   * A NUMA node with slabs.
   *
   * @param cpus its processors that this process may use
   * @param slabs how many slabs it has
   * @param gpus the PCI ids of the GPUs that it is near
   */
  public record Home(int node, BitSet cpus, long memoryBytes, int slabs, List<String> gpus) {
    public Home {
      cpus = (BitSet) cpus.clone();
      gpus = List.copyOf(gpus);
    }

    @Override
    public BitSet cpus() {
      return (BitSet) cpus.clone();
    }
  }

  private final List<Home> homes;
  private final int[] homeOfSlab;
  private final Map<String, Integer> homeOfGpu;

  private NumaPlan(List<Home> homes, int[] homeOfSlab, Map<String, Integer> homeOfGpu) {
    this.homes = homes;
    this.homeOfSlab = homeOfSlab;
    this.homeOfGpu = homeOfGpu;
  }

  /** A plan for a machine with one node, or for a daemon that leaves all to the kernel. */
  public static NumaPlan none() {
    return new NumaPlan(List.of(), new int[0], Map.of());
  }

  /** A plan for slabs of one size. It has no homes if all memory comes from one node anyway. */
  public static NumaPlan of(NumaTopology topology, int slabs, long slabBytes) {
    List<NumaNode> nodes = topology.slabNodes();
    if (!topology.hasChoice() || nodes.isEmpty()) {
      return none();
    }
    List<List<String>> gpus = new ArrayList<>();
    nodes.forEach(_ -> gpus.add(new ArrayList<>()));
    Map<String, Integer> homeOfGpu = new HashMap<>();
    for (NumaGpu gpu : topology.gpus()) {
      NumaNode node = topology.slabNodeFor(gpu.node());
      if (node != null) {
        homeOfGpu.put(gpu.pciId(), nodes.indexOf(node));
        gpus.get(nodes.indexOf(node)).add(gpu.pciId());
      }
    }
    int[] weights = gpus.stream().mapToInt(List::size).toArray();
    long[] most =
        nodes.stream().mapToLong(node -> node.memoryBytes() / 4 * 3 / slabBytes).toArray();
    int[] counts = counts(weights, most, slabs);
    List<Home> homes = new ArrayList<>();
    for (int home = 0; home < nodes.size(); home++) {
      NumaNode node = nodes.get(home);
      homes.add(
          new Home(node.number(), node.cpus(), node.memoryBytes(), counts[home], gpus.get(home)));
    }
    return new NumaPlan(List.copyOf(homes), inTurn(counts, slabs), Map.copyOf(homeOfGpu));
  }

  /** How many slabs each home gets. */
  private static int[] counts(int[] weights, long[] most, int slabs) {
    int[] counts = new int[weights.length];
    int[] equal = new int[weights.length];
    Arrays.fill(equal, 1);
    long[] any = new long[weights.length];
    Arrays.fill(any, Long.MAX_VALUE);
    for (int slab = 0; slab < slabs; slab++) {
      int home = next(weights, counts, most);
      home = home == NONE ? next(equal, counts, most) : home;
      // The machine has too little memory: the start says so, or the kernel swaps.
      home = home == NONE ? next(equal, counts, any) : home;
      counts[home]++;
    }
    return counts;
  }

  /** The home of each slab: the one that lags most behind its share. */
  private static int[] inTurn(int[] counts, int slabs) {
    long[] most = Arrays.stream(counts).asLongStream().toArray();
    int[] given = new int[counts.length];
    int[] homeOfSlab = new int[slabs];
    for (int slab = 0; slab < slabs; slab++) {
      homeOfSlab[slab] = next(counts, given, most);
      given[homeOfSlab[slab]]++;
    }
    return homeOfSlab;
  }

  /** The home with the fewest slabs for its weight that may have one more; NONE if none may. */
  private static int next(int[] weights, int[] counts, long[] most) {
    int next = NONE;
    for (int home = 0; home < weights.length; home++) {
      if (weights[home] > 0
          && counts[home] < most[home]
          && (next == NONE
              || (counts[home] + 1L) * weights[next] < (counts[next] + 1L) * weights[home])) {
        next = home;
      }
    }
    return next;
  }

  /** Whether there is anything to do. */
  public boolean isActive() {
    return !homes.isEmpty();
  }

  /** The homes, by their numbers. */
  public List<Home> homes() {
    return homes;
  }

  /** The home of a slab; NONE without homes. */
  public int ofSlab(int slab) {
    return isActive() ? homeOfSlab[slab] : NONE;
  }

  /** The home of a GPU; NONE if it is not known. */
  public int ofGpu(String pciId) {
    return homeOfGpu.getOrDefault(pciId.toLowerCase(Locale.ROOT), NONE);
  }

  /** The home with the most slabs; NONE without homes. */
  public int main() {
    int main = NONE;
    for (int home = 0; home < homes.size(); home++) {
      main = main == NONE || homes.get(home).slabs() > homes.get(main).slabs() ? home : main;
    }
    return main;
  }
}

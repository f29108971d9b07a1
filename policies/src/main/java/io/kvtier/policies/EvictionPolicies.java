package io.kvtier.policies;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;

/**
 * The eviction policies, by name: those of this module, and those that plug-ins bring. A
 * specification is {@code NAME[:OPTION=VALUE]...[/INNER]}: {@code lru}, {@code s3fifo:small=0.2},
 * {@code lineage/sieve}, where the policy behind the slash is the one that the first wraps.
 */
public final class EvictionPolicies {
  private static final Providers<EvictionPolicyProvider, EvictionPolicy> PROVIDERS =
      new Providers<>(
          "eviction",
          EvictionPolicyProvider.class,
          EvictionPolicyProvider::name,
          EvictionPolicyProvider::create);

  /** The most ids at which memory is measured; beyond, it grows in proportion to the ids. */
  private static final int MEASURED_IDS_MAX = 1 << 18;

  private EvictionPolicies() {}

  /** The names, sorted. */
  public static Iterable<String> names() {
    return PROVIDERS.names();
  }

  /** The names that no plug-in can have. */
  public static Iterable<String> builtInNames() {
    return PROVIDERS.builtInNames();
  }

  /** Replaces the policies of plug-ins. */
  public static void plugIn(Map<String, EvictionPolicyProvider> providers) {
    PROVIDERS.plugIn(providers);
  }

  /**
   * A policy that tracks nothing yet.
   *
   * @param blocksMax ids run from 0 to this, exclusive
   * @param capacityBlocks the most blocks that will be resident at once
   * @throws IllegalArgumentException naming what is wrong with the specification
   */
  public static EvictionPolicy create(String specification, int blocksMax, int capacityBlocks) {
    Specification asked = Specification.parse(specification);
    PolicySetup setup = asked.setup(blocksMax, capacityBlocks);
    EvictionPolicyProvider builtIn = PROVIDERS.builtIn(asked.name());
    EvictionPolicy policy = builtIn == null ? plugged(asked, setup) : builtIn.create(setup);
    setup.requireAllUsed(asked.name());
    return policy;
  }

  private static EvictionPolicy plugged(Specification asked, PolicySetup setup) {
    return new WatchedPolicy(asked.name(), PROVIDERS.plugged(asked, setup), setup.blocksMax());
  }

  /**
   * The memory that {@link #create} would take, in bytes. With many ids, smaller policies are
   * measured. {@code auto} in a small tier may take a third less.
   *
   * @throws IllegalArgumentException naming what is wrong with the specification
   */
  public static long estimateBytes(String specification, int blocksMax, int capacityBlocks) {
    if (blocksMax <= MEASURED_IDS_MAX) {
      return create(specification, blocksMax, capacityBlocks).metadataBytes();
    }
    double share = (double) capacityBlocks / blocksMax;
    long large = bytesOf(specification, MEASURED_IDS_MAX, share);
    long half = bytesOf(specification, MEASURED_IDS_MAX / 2, share);
    double bytesPerId = (large - half) / (MEASURED_IDS_MAX / 2.0);
    return large + (long) (bytesPerId * (blocksMax - MEASURED_IDS_MAX));
  }

  /**
   * The memory that policies of several capacities would take together, in bytes. Making a policy
   * takes a moment. If there are more than a few capacities, only the powers of two around them are
   * measured, and the others are interpolated.
   *
   * @param capacities one for each policy
   */
  public static long estimateBytes(String specification, int blocksMax, int[] capacities) {
    Map<Integer, Long> measured = new HashMap<>();
    for (int capacity : measuredAt(blocksMax, capacities)) {
      measured.put(capacity, estimateBytes(specification, blocksMax, capacity));
    }
    long sum = 0;
    for (int capacity : capacities) {
      Long exact = measured.get(capacity);
      if (exact != null) {
        sum += exact;
        continue;
      }
      int below = below(capacity);
      int above = above(blocksMax, capacity);
      double share = (double) (capacity - below) / (above - below);
      long least = Objects.requireNonNull(measured.get(below));
      sum += least + (long) (share * (Objects.requireNonNull(measured.get(above)) - least));
    }
    return sum;
  }

  static Set<Integer> measuredAt(int blocksMax, int[] capacities) {
    Set<Integer> distinct = new TreeSet<>();
    Set<Integer> around = new TreeSet<>();
    for (int capacity : capacities) {
      distinct.add(capacity);
      around.add(below(capacity));
      around.add(above(blocksMax, capacity));
    }
    return distinct.size() <= around.size() ? distinct : around;
  }

  private static int below(int capacity) {
    return Integer.highestOneBit(capacity);
  }

  private static int above(int blocksMax, int capacity) {
    return (int) Math.min(blocksMax, 2L * below(capacity));
  }

  private static long bytesOf(String specification, int blocksMax, double share) {
    int capacity = Math.clamp(Math.round(share * blocksMax), 1, blocksMax);
    return create(specification, blocksMax, capacity).metadataBytes();
  }
}

package io.kvtier.policies;

import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;

/**
 * The eviction policies on the class path, by name. A specification is {@code
 * NAME[:OPTION=VALUE]...[/INNER]}: {@code lru}, {@code s3fifo:small=0.2}, {@code lineage/sieve},
 * where the policy behind the slash is the one that the first wraps.
 */
public final class EvictionPolicies {
  private static final Map<String, EvictionPolicyProvider> PROVIDERS = new TreeMap<>();

  static {
    for (EvictionPolicyProvider provider :
        ServiceLoader.load(EvictionPolicyProvider.class, EvictionPolicies.class.getClassLoader())) {
      if (PROVIDERS.putIfAbsent(provider.name(), provider) != null) {
        throw new IllegalStateException("two eviction policies are named " + provider.name());
      }
    }
  }

  private EvictionPolicies() {}

  /** The names, sorted. */
  public static Iterable<String> names() {
    return PROVIDERS.keySet();
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
    EvictionPolicyProvider provider = PROVIDERS.get(asked.name());
    if (provider == null) {
      throw asked.unknown("eviction", PROVIDERS.keySet());
    }
    PolicySetup setup = asked.setup(blocksMax, capacityBlocks);
    EvictionPolicy policy = provider.create(setup);
    setup.requireAllUsed(asked.name());
    return policy;
  }
}

package io.kvtier.policies;

import java.util.LinkedHashMap;
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
    int slash = specification.indexOf('/');
    String inner = slash < 0 ? "" : specification.substring(slash + 1);
    String[] parts = (slash < 0 ? specification : specification.substring(0, slash)).split(":", -1);
    EvictionPolicyProvider provider = PROVIDERS.get(parts[0]);
    if (provider == null) {
      throw new IllegalArgumentException(
          "no eviction policy is named '"
              + parts[0]
              + "'; there are "
              + String.join(", ", PROVIDERS.keySet()));
    }
    Map<String, String> options = new LinkedHashMap<>();
    for (int i = 1; i < parts.length; i++) {
      int equals = parts[i].indexOf('=');
      if (equals < 1 || equals == parts[i].length() - 1) {
        throw new IllegalArgumentException(
            "'" + parts[i] + "' in '" + specification + "' is not OPTION=VALUE");
      }
      options.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
    }
    PolicySetup setup = new PolicySetup(blocksMax, capacityBlocks, options, inner);
    EvictionPolicy policy = provider.create(setup);
    setup.requireAllRead(parts[0]);
    setup.requireInnerUsed(parts[0]);
    return policy;
  }
}

package io.kvtier.policies;

import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;

/**
 * The admission policies on the class path, by name. A specification is {@code
 * NAME[:OPTION=VALUE]...[/INNER]}: {@code all}, {@code hot:uses=3}, {@code
 * frequency:times=2/evicted}, where the policy behind the slash is the one that the first wraps.
 */
public final class AdmissionPolicies {
  private static final Map<String, AdmissionPolicyProvider> PROVIDERS = new TreeMap<>();

  static {
    for (AdmissionPolicyProvider provider :
        ServiceLoader.load(
            AdmissionPolicyProvider.class, AdmissionPolicies.class.getClassLoader())) {
      if (PROVIDERS.putIfAbsent(provider.name(), provider) != null) {
        throw new IllegalStateException("two admission policies are named " + provider.name());
      }
    }
  }

  private AdmissionPolicies() {}

  /** The names, sorted. */
  public static Iterable<String> names() {
    return PROVIDERS.keySet();
  }

  /**
   * A policy that has seen nothing yet.
   *
   * @param capacityBlocks the most blocks that the tier holds
   * @throws IllegalArgumentException naming what is wrong with the specification
   */
  public static AdmissionPolicy create(String specification, int capacityBlocks) {
    Specification asked = Specification.parse(specification);
    AdmissionPolicyProvider provider = PROVIDERS.get(asked.name());
    if (provider == null) {
      throw asked.unknown("admission", PROVIDERS.keySet());
    }
    PolicySetup setup = asked.setup(capacityBlocks, capacityBlocks);
    AdmissionPolicy policy = provider.create(setup);
    setup.requireAllUsed(asked.name());
    return policy;
  }
}

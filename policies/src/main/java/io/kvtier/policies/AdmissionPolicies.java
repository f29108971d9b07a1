package io.kvtier.policies;

import java.util.Map;

/**
 * The admission policies, by name: those of this module, and those that plug-ins bring. A
 * specification is {@code NAME[:OPTION=VALUE]...[/INNER]}: {@code all}, {@code hot:uses=3}, {@code
 * frequency:times=2/evicted}, where the policy behind the slash is the one that the first wraps.
 */
public final class AdmissionPolicies {
  private static final Providers<AdmissionPolicyProvider, AdmissionPolicy> PROVIDERS =
      new Providers<>(
          "admission",
          AdmissionPolicyProvider.class,
          AdmissionPolicyProvider::name,
          AdmissionPolicyProvider::create);

  private AdmissionPolicies() {}

  /** The names, sorted. */
  public static Iterable<String> names() {
    return PROVIDERS.names();
  }

  /** The names that no plug-in can have. */
  public static Iterable<String> builtInNames() {
    return PROVIDERS.builtInNames();
  }

  /** Replaces the policies of plug-ins. */
  public static void plugIn(Map<String, AdmissionPolicyProvider> providers) {
    PROVIDERS.plugIn(providers);
  }

  /**
   * A policy that has seen nothing yet.
   *
   * @param capacityBlocks the most blocks that the tier holds
   * @throws IllegalArgumentException naming what is wrong with the specification
   */
  public static AdmissionPolicy create(String specification, int capacityBlocks) {
    Specification asked = Specification.parse(specification);
    PolicySetup setup = asked.setup(capacityBlocks, capacityBlocks);
    AdmissionPolicyProvider builtIn = PROVIDERS.builtIn(asked.name());
    AdmissionPolicy policy =
        builtIn == null ? PROVIDERS.plugged(asked, setup) : builtIn.create(setup);
    setup.requireAllUsed(asked.name());
    return policy;
  }
}

package io.kvtier.policies;

/**
 * Makes an eviction policy that is chosen by name. Found by {@link java.util.ServiceLoader}: a jar
 * with a provider names it in {@code META-INF/services/io.kvtier.policies.EvictionPolicyProvider}.
 */
public interface EvictionPolicyProvider {
  /** The name by which configuration and command line choose the policy: lower case. */
  String name();

  /** A policy that tracks nothing yet. */
  EvictionPolicy create(PolicySetup setup);
}

package io.kvtier.policies;

/**
 * Makes an eviction policy that is chosen by name. Found by {@link java.util.ServiceLoader}, in
 * this module and in the jars of plug-ins: a jar names its provider in {@code
 * META-INF/services/io.kvtier.policies.EvictionPolicyProvider}.
 */
public interface EvictionPolicyProvider {
  /** The name by which configuration and command line choose the policy: lower case. */
  String name();

  /** A policy that tracks nothing yet. */
  EvictionPolicy create(PolicySetup setup);
}

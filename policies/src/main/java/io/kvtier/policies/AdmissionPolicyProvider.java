package io.kvtier.policies;

/**
 * Makes an admission policy that is chosen by name. Found by {@link java.util.ServiceLoader}, as
 * {@link EvictionPolicyProvider} is.
 */
public interface AdmissionPolicyProvider {
  /** The name by which configuration chooses the policy: lower case. */
  String name();

  /** A policy that has seen nothing yet. */
  AdmissionPolicy create(PolicySetup setup);
}

package io.kvtier.policies.admission;

import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/** Every block, as soon as it is in the tier above: write through. */
public final class AllAdmission implements AdmissionPolicy {
  /** Makes it by name. */
  public static final class Provider implements AdmissionPolicyProvider {
    @Override
    public String name() {
      return "all";
    }

    @Override
    public AdmissionPolicy create(PolicySetup setup) {
      return new AllAdmission();
    }
  }

  @Override
  public boolean admits(Occasion occasion, long fingerprint, int uses, boolean isTierFull) {
    return true;
  }

  @Override
  public long metadataBytes() {
    return 0;
  }
}

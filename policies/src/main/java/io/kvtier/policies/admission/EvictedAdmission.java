package io.kvtier.policies.admission;

import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/** Every block, but only when it falls out of the tier above. */
public final class EvictedAdmission implements AdmissionPolicy {
  /** Makes it by name. */
  public static final class Provider implements AdmissionPolicyProvider {
    @Override
    public String name() {
      return "evicted";
    }

    @Override
    public AdmissionPolicy create(PolicySetup setup) {
      return new EvictedAdmission();
    }
  }

  @Override
  public boolean admits(Occasion occasion, long fingerprint, int uses, boolean isTierFull) {
    return occasion == Occasion.EVICTED;
  }

  @Override
  public boolean listensTo(Occasion occasion) {
    return occasion == Occasion.EVICTED;
  }

  @Override
  public long metadataBytes() {
    return 0;
  }
}

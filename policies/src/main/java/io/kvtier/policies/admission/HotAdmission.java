package io.kvtier.policies.admission;

import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicyProvider;
import io.kvtier.policies.PolicySetup;

/**
 * Blocks that proved hot, as soon as they do: after so many uses. What falls out of the tier above
 * before that is taken while there is room.
 */
public final class HotAdmission implements AdmissionPolicy {
  /** Makes it by name. Option: uses. */
  public static final class Provider implements AdmissionPolicyProvider {
    @Override
    public String name() {
      return "hot";
    }

    @Override
    public AdmissionPolicy create(PolicySetup setup) {
      return new HotAdmission(setup.count("uses", 2, 1, 255));
    }
  }

  private final int usesMin;

  /** Of blocks that were used so often. */
  public HotAdmission(int usesMin) {
    this.usesMin = usesMin;
  }

  @Override
  public boolean admits(Occasion occasion, long fingerprint, int uses, boolean isTierFull) {
    return uses >= usesMin || (occasion == Occasion.EVICTED && !isTierFull);
  }

  @Override
  public boolean listensTo(Occasion occasion) {
    return occasion != Occasion.INSERTED;
  }

  @Override
  public long metadataBytes() {
    return 0;
  }
}

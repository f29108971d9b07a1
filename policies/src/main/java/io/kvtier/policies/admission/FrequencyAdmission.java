package io.kvtier.policies.admission;

import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicyProvider;
import io.kvtier.policies.FrequencySketch;
import io.kvtier.policies.PolicySetup;

/**
 * Against wear of a device: of the blocks that the wrapped policy admits, those whose keys were
 * seen so often of late, in this life or an earlier one. At its eviction a block is taken all the
 * same while there is room.
 */
public final class FrequencyAdmission implements AdmissionPolicy {
  /** Makes it by name. Option: times. Wraps {@code evicted} where nothing else is named. */
  public static final class Provider implements AdmissionPolicyProvider {
    @Override
    public String name() {
      return "frequency";
    }

    @Override
    public AdmissionPolicy create(PolicySetup setup) {
      return new FrequencyAdmission(
          setup.innerAdmission("evicted"), setup.capacityBlocks(), setup.count("times", 2, 1, 15));
    }
  }

  private final AdmissionPolicy inner;
  private final int timesMin;
  private final FrequencySketch sketch;

  /**
   * A filter that has seen nothing.
   *
   * @param capacityBlocks the most blocks that the tier holds
   * @param timesMin how often a key must have been seen: insertions and uses
   */
  public FrequencyAdmission(AdmissionPolicy inner, int capacityBlocks, int timesMin) {
    this.inner = inner;
    this.timesMin = timesMin;
    sketch = new FrequencySketch(capacityBlocks);
  }

  @Override
  public boolean admits(Occasion occasion, long fingerprint, int uses, boolean isTierFull) {
    if (occasion != Occasion.EVICTED) {
      sketch.add(fingerprint);
    }
    boolean isSpare = occasion == Occasion.EVICTED && !isTierFull;
    return inner.admits(occasion, fingerprint, uses, isTierFull)
        && (isSpare || sketch.count(fingerprint) >= timesMin);
  }

  @Override
  public long metadataBytes() {
    return sketch.bytes() + inner.metadataBytes();
  }
}

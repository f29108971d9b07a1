package io.kvtier.tiers.gpu;

/** Whether this machine has a GPU that can be used. */
public sealed interface GpuProbe {
  /** It has. */
  record Found(GpuDriver driver) implements GpuProbe {}

  /**
   * It has not.
   *
   * @param reason ends the sentence "no GPU because ..."
   */
  record NoGpu(String reason) implements GpuProbe {
    @Override
    public String toString() {
      return "no GPU because " + reason;
    }
  }
}

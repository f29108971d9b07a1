package io.kvtier.tiers.gpu;

/** What became of an engine's wish to have its tensors opened. */
public sealed interface RegionResult {
  /** They are open. */
  record Opened(DeviceRegion region) implements RegionResult {}

  /** They are not, and nothing stayed open. */
  record Refused(String reason) implements RegionResult {}
}

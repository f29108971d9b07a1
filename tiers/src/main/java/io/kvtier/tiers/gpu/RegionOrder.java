package io.kvtier.tiers.gpu;

import org.jspecify.annotations.Nullable;

/**
 * The index's wish to have a region opened or closed, and what came of it. Made by the index, and
 * its again when {@link GpuTier#collect} gives it back.
 */
public final class RegionOrder {
  /** The region's number at the index. */
  public final int region;

  /** What to open; null to close. */
  public final @Nullable DeviceRegionSpec spec;

  /** What is open: a result, or what to close. */
  public @Nullable DeviceRegion opened;

  /** What copies to and from it. */
  public @Nullable DevicePipeline pipeline;

  /** Why it was not opened. */
  public @Nullable String refusal;

  private RegionOrder(int region, @Nullable DeviceRegionSpec spec, @Nullable DeviceRegion opened) {
    this.region = region;
    this.spec = spec;
    this.opened = opened;
  }

  /** To open one. */
  public static RegionOrder open(int region, DeviceRegionSpec spec) {
    return new RegionOrder(region, spec, null);
  }

  /** To close one, of which no copy is in flight. */
  public static RegionOrder close(int region, DeviceRegion opened) {
    return new RegionOrder(region, null, opened);
  }

  /** Whether it is to be opened. */
  public boolean isOpen() {
    return spec != null;
  }
}

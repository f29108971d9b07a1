package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;
import org.jspecify.annotations.Nullable;

/**
 * The index's wish to have a region opened, shared or closed, and what came of it. Made by the
 * index, and its again when {@link GpuTier#collect} gives it back.
 */
public final class RegionOrder {
  /** The region's number at the index. */
  public final int region;

  /** What to open; null to share or to close. */
  public final @Nullable DeviceRegionSpec spec;

  /** How its blocks can be encoded; null: they are raw, or it is not to be opened. */
  public final @Nullable BlockEncoding encoding;

  /** Whether other GPUs shall see what is open. */
  public final boolean isShare;

  /** What is open: a result, or what to share or to close. */
  public @Nullable DeviceRegion opened;

  /** What copies to and from it. */
  public @Nullable DevicePipeline pipeline;

  /** Whether the region's blocks are put raw, although its namespace has an encoding. */
  public boolean isStoredRaw;

  /** Why it was not opened. */
  public @Nullable String refusal;

  private RegionOrder(
      int region,
      @Nullable DeviceRegionSpec spec,
      @Nullable BlockEncoding encoding,
      boolean isShare,
      @Nullable DeviceRegion opened) {
    this.region = region;
    this.spec = spec;
    this.encoding = encoding;
    this.isShare = isShare;
    this.opened = opened;
  }

  /**
   * To open one.
   *
   * @param encoding how its blocks can be encoded; null: they are raw
   */
  public static RegionOrder open(
      int region, DeviceRegionSpec spec, @Nullable BlockEncoding encoding) {
    return new RegionOrder(region, spec, encoding, false, null);
  }

  /** To close one, of which no copy is in flight. */
  public static RegionOrder close(int region, DeviceRegion opened) {
    return new RegionOrder(region, null, null, false, opened);
  }

  /**
   * To let the other GPUs in use, and those that come into use later, see one. Those that can't are
   * no failure: blocks get there by the host.
   */
  public static RegionOrder share(int region, DeviceRegion opened) {
    return new RegionOrder(region, null, null, true, opened);
  }

  /** Whether it is to be opened. */
  public boolean isOpen() {
    return spec != null;
  }
}

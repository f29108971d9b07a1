package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Share;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.Replica;
import io.kvtier.layout.Shard;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.DeviceRegionSpec;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An engine's device region, from the request to open it until it is closed. It belongs to a
 * session, and outlives it as long as copies of it are under way.
 */
public final class Region {
  /** The number of no advertisement. */
  static final int NOTHING_ADVERTISED = -1;

  public final int id;
  final int namespaceId;
  final KvLayout layout;

  /** Which layers and heads of its namespace's blocks the region has. */
  final Shard shard;

  final Replica replica;

  /** How blocks of its namespace are encoded; null: they are raw. */
  final @Nullable BlockEncoding encoding;

  /** Whether the engine copies the region's blocks itself: it is never opened. */
  final boolean isOnHost;

  /** Whether its GPU puts blocks raw, although they have an encoding. */
  boolean isStoredRaw;

  final long runsOfLayer;

  /** The entries of a layer of a block in a list of runs. */
  final long entriesOfLayer;

  /** What its owner's tenant has. */
  final Share share;

  /** The operation that waits until it is open, or closed; null: none does. */
  @Nullable Operation waiting;

  @Nullable DeviceRegion opened;
  @Nullable DevicePipeline pipeline;

  /** Operations that copy. */
  int jobs;

  /** Copies of others from it. */
  int lent;

  /** The first of its advertisements. */
  int firstAdvertised = NOTHING_ADVERTISED;

  /** What its owner calls itself. */
  public int rank;

  /** Other GPUs were told to see it. */
  boolean isShared;

  /** Those that can do. */
  boolean isSeen;

  /** Who waits for that. */
  final List<Operation> sharing = new ArrayList<>();

  /** No further request may name it; it is closed when its last operation has ended. */
  boolean isClosing;

  /** It is being closed. */
  boolean isOrdered;

  /** The last one whose blocks were found to be like its own. */
  private @Nullable Region alike;

  Region(
      int id,
      Namespaces.Namespace namespace,
      DeviceRegionSpec spec,
      Share share,
      @Nullable Operation waiting) {
    this.id = id;
    namespaceId = namespace.id();
    encoding = namespace.encoding();
    layout = spec.layout();
    shard = layout.shard();
    replica = spec.replica();
    isOnHost = spec.isOnHost();
    this.share = share;
    this.waiting = waiting;
    runsOfLayer = layout.runsPerLayer();
    entriesOfLayer = layout.entriesPerLayer();
  }

  /**
   * Whether nobody promises its bytes any more: its session has ended, or was told not to wait for
   * its end.
   */
  boolean isLeft() {
    return isClosing && waiting == null;
  }

  /** Whether blocks of another one can be copied here without the host. */
  boolean canCopyFrom(Region other) {
    DeviceRegion source = other.opened;
    DevicePipeline copier = pipeline;
    if (other == this || source == null || copier == null || !copier.reaches(source)) {
      return false;
    }
    if (alike != other) {
      if (!layout.hasSameShardAs(other.layout)) {
        return false;
      }
      alike = other;
    }
    return true;
  }

  /**
   * It is closed: it holds on to no other any more, so that one that is open never holds a chain.
   */
  void forget() {
    alike = null;
  }

  /** Why a number is none of its blocks', in words. */
  String noBlock(int number) {
    return "block "
        + Integer.toUnsignedString(number)
        + " is not in region "
        + id
        + ": it has "
        + layout.blocks()
        + ", from 0 on";
  }

  /** Why a request of another namespace is not for it, in words. */
  String otherNamespace() {
    return "region "
        + id
        + " was registered for another namespace than the request's: register one for this";
  }

  /** The lane of slots near its GPU, or {@link SlotAllocator#ANY_LANE}. */
  int lane() {
    DevicePipeline copier = pipeline;
    return copier == null || copier.home() == NumaHomes.NONE
        ? SlotAllocator.ANY_LANE
        : copier.home();
  }

  /** The number of its GPU. */
  public int gpuOrdinal() {
    DevicePipeline copier = pipeline;
    return copier == null ? 0 : copier.ordinal();
  }
}

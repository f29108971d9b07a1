package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * What the {@link BlockStore} is made of: the tiers, and who hears of changes.
 *
 * @param events hears in which tiers blocks are; null for nobody
 * @param transfers hears how transfers ended
 * @param isAwaited whether a request waits for a block's copy in the first tier
 */
public record StoreParts(
    IndexCore core,
    Tiers tiers,
    @Nullable BlockEvents events,
    TransferWatch transfers,
    IntPredicate isAwaited) {
  /**
   * Where blocks can be.
   *
   * @param lower the tiers below the first, in their order
   * @param sources further sources of blocks, which are asked before the object store
   * @param objects null when there is no object tier
   */
  public record Tiers(
      First first,
      List<Lower> lower,
      List<BlockSource.Opener> sources,
      @Nullable ObjectParts objects) {
    public Tiers {
      lower = List.copyOf(lower);
      sources = List.copyOf(sources);
    }
  }

  /**
   * The tier that clients read and write.
   *
   * @param ledger the rows of its copies
   * @param slabs the memory of its regions
   * @param freeTarget the share of its slots that evictions keep free
   */
  public record First(
      TierTraits traits,
      Space space,
      Ledger ledger,
      IntFunction<MemorySegment> slabs,
      Checksums checksums,
      double freeTarget) {}

  /**
   * A tier below the first.
   *
   * @param admission the specification of its admission policy
   */
  public record Lower(
      TierTraits traits, Space space, String admission, Devices devices, Pace pace, Place place) {}

  /**
   * The space of a tier; without regions where the tier has none.
   *
   * @param headerBytes what a slot holds before its block
   * @param policy the specification of the tier's eviction policy
   */
  public record Space(SlotAllocator slots, int headerBytes, String policy) {}

  /**
   * How the checksums of the first tier's copies are made.
   *
   * @param depth the most that the pipeline makes at a time
   * @param inlineBytes the index makes those of blocks up to this length itself
   */
  public record Checksums(Pipeline pipeline, int depth, int inlineBytes) {}

  /**
   * The devices of a lower tier.
   *
   * @param pipelines one for each device
   * @param depth the most loads and stores in flight on each device
   */
  public record Devices(List<Pipeline> pipelines, int depth) {
    public Devices {
      pipelines = List.copyOf(pipelines);
    }
  }

  /**
   * How much is read and written on the devices of a lower tier.
   *
   * @param scrubBytesPerSecond how much is read in the background; 0: nothing
   * @param writeBytesPerDay how much may be written; 0: no limit
   */
  public record Pace(long scrubBytesPerSecond, long writeBytesPerDay) {}

  /**
   * Where a tier is, for people.
   *
   * @param directory its folders
   * @param engine how its files are read and written
   * @param isDirect whether past the system's cache
   */
  public record Place(String directory, String engine, boolean isDirect) {}
}

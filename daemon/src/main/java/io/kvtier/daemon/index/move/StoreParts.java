package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Latencies;
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
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * What the {@link BlockStore} is made of: the tiers, their pipelines, and who hears of changes.
 *
 * @param events hears in which tiers blocks are; null for nobody
 * @param transfers hears how transfers ended
 * @param lower the tiers below the first, in their order
 * @param sources further sources of blocks, which are asked before the object store
 * @param objects null when there is no object tier
 */
public record StoreParts(
    LongSupplier clock,
    Directory directory,
    Counters counters,
    Latencies latencies,
    @Nullable BlockEvents events,
    TransferWatch transfers,
    First first,
    List<Lower> lower,
    List<BlockSource.Opener> sources,
    @Nullable ObjectParts objects) {
  public StoreParts {
    lower = List.copyOf(lower);
    sources = List.copyOf(sources);
  }

  /**
   * The tier that clients read and write.
   *
   * @param policy the specification of its eviction policy
   * @param ledger the rows of its copies
   * @param slabs the memory of its regions
   * @param checksums makes the checksums of its copies
   */
  public record First(
      TierTraits traits,
      SlotAllocator slots,
      String policy,
      Ledger ledger,
      IntFunction<MemorySegment> slabs,
      Pipeline checksums) {}

  /**
   * A tier below the first; without regions where it has no space.
   *
   * @param headerBytes what a slot holds before its block
   * @param policy the specification of its eviction policy
   * @param admission the specification of its admission policy
   * @param pipelines one for each device
   * @param depth the most loads and stores in flight on each device
   * @param scrubBytesPerSecond how much is read in the background; 0: nothing
   * @param writeBytesPerDay how much may be written; 0: no limit
   * @param place where it is
   */
  public record Lower(
      TierTraits traits,
      SlotAllocator slots,
      int headerBytes,
      String policy,
      String admission,
      List<Pipeline> pipelines,
      int depth,
      long scrubBytesPerSecond,
      long writeBytesPerDay,
      Place place) {
    public Lower {
      pipelines = List.copyOf(pipelines);
    }
  }

  /**
   * Where a tier is, for people.
   *
   * @param directory its folders
   * @param engine how its files are read and written
   * @param isDirect whether past the system's cache
   */
  public record Place(String directory, String engine, boolean isDirect) {}
}

package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Pipeline;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import java.util.function.LongUnaryOperator;
import org.jspecify.annotations.Nullable;

/** The parts of resident tiers. */
public final class TierParts {
  private TierParts() {}

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
   * The space of a tier; it has no regions if the tier is not configured.
   *
   * @param headerBytes the bytes of a slot before the block
   * @param policy the specification of the tier's eviction policy
   */
  public record Space(SlotAllocator slots, int headerBytes, String policy) {}

  /**
   * How the checksums of the first tier's copies are made.
   *
   * @param depth the most that the pipeline makes at a time
   * @param inlineBytes the index itself makes the checksums of blocks up to this length
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
   * The place of a tier, for people.
   *
   * @param directory its folders
   * @param engine how its files are read and written
   * @param isDirect whether reads and writes bypass the page cache
   */
  public record Place(String directory, String engine, boolean isDirect) {}

  /**
   * The parts that all tiers share.
   *
   * @param bytesOf the length of a block
   * @param events hears which copies come and go; null when nobody listens
   * @param recordsOfPart the most blocks that a part can have, whatever its slots
   * @param heapLeft takes the bytes that are wanted, and returns the bytes of Java heap left
   */
  public record Common(
      Directory directory,
      IntUnaryOperator bytesOf,
      @Nullable BlockEvents events,
      IntUnaryOperator recordsOfPart,
      LongUnaryOperator heapLeft) {}
}

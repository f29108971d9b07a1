package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.Settlement;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import java.util.ArrayList;
import java.util.List;

/**
 * The scrubbers of the lower tiers; drops the damaged copies that they find. Confined to the index.
 */
public final class Scrubbers {
  private final Directory directory;
  private final Counters counters;
  private final TierStack stack;
  private final Copies copies;
  private final List<Scrubber> scrubbers = new ArrayList<>();

  Scrubbers(MoveParts parts) {
    directory = parts.core().directory();
    counters = parts.core().counters();
    stack = parts.stack();
    copies = parts.copies();
    for (LowerTier one : parts.lower()) {
      long bytesPerSecond = one.parts().pace().scrubBytesPerSecond();
      scrubbers.add(new Scrubber(directory, one.tier(), parts.mover().below(), bytesPerSecond));
    }
  }

  /** A scrubber has read a block. */
  void onScrubbed(Settlement scrub) {
    int block = scrub.block;
    ResidentTier tier = stack.at(scrub.from);
    of(tier).finished();
    directory.addUses(block, 1);
    counters.add(Counter.SCRUBBED, scrub.status == Status.IO_ERROR ? 0 : 1);
    if (scrub.status == Status.IO_ERROR) {
      // The fence does not hear of this. The scrubber reads unreadable places again and again,
      // which would keep stores from a device that takes them.
      counters.add(Counter.IO_ERRORS, 1);
    } else if (scrub.status == Status.CORRUPT) {
      counters.add(Counter.CORRUPT, 1);
      counters.add(Counter.SCRUBBED_CORRUPT, 1);
      copies.loseCopy(block, tier);
    }
    copies.endUse(block);
  }

  private Scrubber of(ResidentTier tier) {
    return scrubbers.get(tier.number() - 1);
  }

  /** Changes the rate at which a tier is read in the background. */
  public void change(ResidentTier tier, long bytesPerSecond) {
    of(tier).change(bytesPerSecond);
  }

  /** The rate at which a tier is read in the background. */
  public long bytesPerSecond(ResidentTier tier) {
    return of(tier).bytesPerSecond();
  }

  /** Whether blocks of any tier are read in the background. */
  public boolean isAnyActive() {
    for (Scrubber scrubber : scrubbers) {
      if (scrubber.isActive()) {
        return true;
      }
    }
    return false;
  }

  /** Begins the reads that are due. */
  void advance(long nowNs) {
    for (Scrubber scrubber : scrubbers) {
      scrubber.advance(nowNs);
    }
  }
}

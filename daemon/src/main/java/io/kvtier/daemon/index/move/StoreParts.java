package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.space.TierParts;
import java.util.List;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * The parts of a {@link BlockStore}: the tiers, and the listeners.
 *
 * @param events hears of blocks that come to tiers and leave them; null when nobody listens
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
   * The tiers and sources of blocks.
   *
   * @param lower the tiers below the first, in their order
   * @param sources further sources of blocks, which are asked before the object store
   * @param objects null when there is no object tier
   */
  public record Tiers(
      TierParts.First first,
      List<TierParts.Lower> lower,
      List<BlockSource.Opener> sources,
      @Nullable ObjectParts objects) {
    public Tiers {
      lower = List.copyOf(lower);
      sources = List.copyOf(sources);
    }
  }
}

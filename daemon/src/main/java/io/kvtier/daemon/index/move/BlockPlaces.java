package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.TierId;
import java.util.EnumSet;
import java.util.Set;

/** The tiers of blocks, in the terms of clients and of readers of events. Confined to the index. */
public final class BlockPlaces {
  private final Directory directory;
  private final TierStack stack;
  private final Sources sources;
  private final boolean hasObjects;

  BlockPlaces(Directory directory, TierStack stack, Sources sources, boolean hasObjects) {
    this.directory = directory;
    this.stack = stack;
    this.sources = sources;
    this.hasObjects = hasObjects;
  }

  /** The tiers in which blocks are stored, below the first. */
  public Set<TierId> storedTiers() {
    Set<TierId> tiers = EnumSet.noneOf(TierId.class);
    for (ResidentTier tier : stack.lower()) {
      if (tier.isConfigured()) {
        tiers.add(tier.traits().id());
      }
    }
    if (hasObjects) {
      tiers.add(TierId.OBJECT);
    }
    return tiers;
  }

  /** The counter for gets whose blocks were in a tier, or came from a source. */
  public Counter hitsOf(TierId id) {
    for (int i = 0; i < sources.count(); i++) {
      if (sources.at(i).traits().id() == id) {
        return sources.at(i).traits().hits();
      }
    }
    return stack.withId(id).traits().counts().hits();
  }

  /** The tiers of a block, as bits of {@link BlockEvents}. */
  public int tiersOf(int block) {
    int bits = directory.has(Directory.FLAG_OBJECT, block) ? BlockEvents.OBJECT : 0;
    for (ResidentTier tier : stack.all()) {
      bits |= tier.isResident(block) ? tier.traits().eventBit() : 0;
    }
    return bits;
  }
}

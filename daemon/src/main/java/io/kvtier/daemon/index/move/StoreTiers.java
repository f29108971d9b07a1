package io.kvtier.daemon.index.move;

import io.kvtier.daemon.config.HeapRoom;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.space.FirstRows;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.index.space.TierRows;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import java.util.ArrayList;
import java.util.List;

/** Makes the resident tiers of a store. */
final class StoreTiers {
  /** Ends a store that may be under way: its ledger row must not be written any more. */
  interface StoreEnd {
    void giveUpStore(int block, int tier);
  }

  private final IndexCore core;
  private final TierParts.Common common;
  private final StoreEnd stores;
  private final FirstRows firstRows;
  private final TierStack stack;
  private final LowerTiers lower;

  /**
   * Tiers without blocks.
   *
   * @param recordsMax the most records that each tenant may have
   * @param stores ends the stores of copies that leave a lower tier
   */
  StoreTiers(StoreParts parts, int[] recordsMax, StoreEnd stores) {
    core = parts.core();
    this.stores = stores;
    Namespaces namespaces = core.namespaces();
    common =
        new TierParts.Common(
            core.directory(),
            block -> namespaces.storedBytes(core.directory(), block),
            parts.events(),
            tenant -> recordsMax[tenant],
            HeapRoom::left);
    TierParts.First top = parts.tiers().first();
    firstRows =
        new FirstRows(
            core.directory(), namespaces, top.space().slots(), top.ledger(), core.clock());
    List<ResidentTier> tiers = new ArrayList<>();
    tiers.add(tier(0, top.traits(), top.space(), firstRows));
    List<LowerTier> below = new ArrayList<>();
    for (TierParts.Lower one : parts.tiers().lower()) {
      below.add(lowerTier(tiers.size(), one));
      tiers.add(below.getLast().tier());
    }
    stack = new TierStack(tiers);
    stack.watch(core.directory().copies());
    lower = new LowerTiers(below);
  }

  private ResidentTier tier(int number, TierTraits traits, TierParts.Space space, TierRows rows) {
    return new ResidentTier(
        number, traits, common, space.slots(), space.headerBytes(), space.policy(), rows);
  }

  private LowerTier lowerTier(int number, TierParts.Lower parts) {
    Lanes lanes =
        new Lanes(
            number,
            parts.space().slots(),
            core.directory().copies(),
            parts.devices().pipelines(),
            core.namespaces().tenants(),
            parts.devices().depth(),
            core.clock());
    ResidentTier tier = tier(number, parts.traits(), parts.space(), new LowerRows(number, lanes));
    tier.setAsideOn(lane -> lanes.at(lane).isFenced());
    return new LowerTier(tier, lanes, parts);
  }

  /**
   * The rows of a lower tier: the pipeline of a store writes them, and the index has them deleted.
   */
  private final class LowerRows implements TierRows {
    private final CopyTable copies = core.directory().copies();
    private final int tier;
    private final Lanes lanes;

    LowerRows(int tier, Lanes lanes) {
      this.tier = tier;
      this.lanes = lanes;
    }

    @Override
    public void added(int block) {}

    @Override
    public void removed(int block) {
      if (copies.state(tier, block) == CopyState.STAGING) {
        stores.giveUpStore(block, tier);
      }
      lanes.forgetRow(block);
    }
  }

  /** The rows of the first tier. */
  FirstRows firstRows() {
    return firstRows;
  }

  /** All tiers. */
  TierStack stack() {
    return stack;
  }

  /** The tiers below the first, with their devices. */
  LowerTiers lower() {
    return lower;
  }
}

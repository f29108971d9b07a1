package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.tiers.transfer.Transfer;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;

/** The tiers below the first, in their order. */
public final class LowerTiers implements Iterable<LowerTier> {
  private final List<LowerTier> tiers;
  private final LowerTier[] order;

  public LowerTiers(List<LowerTier> tiers) {
    this.tiers = List.copyOf(tiers);
    order = tiers.toArray(LowerTier[]::new);
  }

  @Override
  public Iterator<LowerTier> iterator() {
    return tiers.iterator();
  }

  /** The tier with a number, which is not the first's. */
  public LowerTier at(int number) {
    return order[number - 1];
  }

  public List<Lanes> lanes() {
    return tiers.stream().map(LowerTier::lanes).toList();
  }

  /** Hands over loads and stores that are finished; returns how many transfers were. */
  int collect(Consumer<Transfer> finished) {
    int count = 0;
    for (LowerTier tier : order) {
      count += tier.lanes().collect(finished);
    }
    return count;
  }

  boolean hasFinished() {
    for (LowerTier tier : order) {
      if (tier.lanes().hasFinished()) {
        return true;
      }
    }
    return false;
  }

  /** Loads and stores under way. */
  public int inFlight() {
    int count = 0;
    for (LowerTier tier : order) {
      count += tier.lanes().inFlight();
    }
    return count;
  }

  /** Whether ledger rows wait to be deleted, and can be. */
  boolean isForgetting() {
    for (LowerTier tier : order) {
      if (tier.lanes().isForgetting()) {
        return true;
      }
    }
    return false;
  }

  /** Whether anything is under way, after whose end a tier may take more. */
  public boolean isBusy() {
    for (LowerTier tier : order) {
      if (tier.lanes().isBusy()) {
        return true;
      }
    }
    return false;
  }

  /** Whether the write budget of any tier is used up for the moment. */
  public boolean isAnyOutOfBudget() {
    for (LowerTier tier : order) {
      if (!tier.budget().isOpen()) {
        return true;
      }
    }
    return false;
  }

  /** Opens fences whose time is over, and hands over ledger rows that must be deleted. */
  public void advance(long nowNs) {
    for (LowerTier tier : order) {
      tier.lanes().checkFences(nowNs);
      tier.tier().returnAside();
      tier.lanes().forgetRows();
      tier.budget().advance(nowNs);
    }
  }

  @Override
  public String toString() {
    StringBuilder out = new StringBuilder();
    for (LowerTier tier : order) {
      out.append("; ").append(tier.traits().title()).append(tier.lanes());
    }
    return out.toString();
  }
}

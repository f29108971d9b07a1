package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.lane.WriteBudget;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;

/**
 * A tier below the first: its space, its devices, how much may be written there, and how fast it is
 * read. Confined to the index.
 */
public final class LowerTier {
  private final ResidentTier tier;
  private final Lanes lanes;
  private final WriteBudget budget;
  private final TierParts.Lower parts;
  private double readNsPerByte = 1.0 / 2.0;

  public LowerTier(ResidentTier tier, Lanes lanes, TierParts.Lower parts) {
    this.tier = tier;
    this.lanes = lanes;
    this.parts = parts;
    budget = new WriteBudget(parts.pace().writeBytesPerDay());
  }

  public ResidentTier tier() {
    return tier;
  }

  public int number() {
    return tier.number();
  }

  public TierTraits traits() {
    return tier.traits();
  }

  public Lanes lanes() {
    return lanes;
  }

  /** The parts of the tier, from the configuration. */
  public TierParts.Lower parts() {
    return parts;
  }

  public WriteBudget budget() {
    return budget;
  }

  /** Whether the tier takes a block, now or when its devices work again. */
  public boolean takes(int block) {
    return tier.takes(block) && !lanes.isAllGivenUp();
  }

  /** Whether a block that is in the tier can be read there now: its device is not fenced. */
  public boolean isReadable(int block) {
    return tier.isResident(block) && lanes.of(block).isReadable();
  }

  /** Whether a store that could not be started may be started soon. */
  public boolean mayStoreSoon() {
    return lanes.isAnyWell() && (lanes.isBusy() || !budget.isOpen());
  }

  /** Learns how fast the tier is read. */
  void learn(long bytes, long elapsedNs) {
    readNsPerByte += 0.1 * ((double) elapsedNs / bytes - readNsPerByte);
  }

  /** The expected time to read that many bytes, ns, as measured. */
  public long estimatedReadNs(long bytes) {
    return (long) (bytes * readNsPerByte);
  }
}

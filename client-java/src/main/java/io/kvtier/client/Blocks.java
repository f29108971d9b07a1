package io.kvtier.client;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.util.AbstractList;
import java.util.Arrays;
import java.util.List;

/** The outcomes of a batch's blocks, in the order of its keys. Immutable. */
public final class Blocks {
  private final byte[] statuses;
  private final byte[] tiers;

  private Blocks(byte[] statuses, byte[] tiers) {
    this.statuses = statuses;
    this.tiers = tiers;
  }

  /**
   * Outcomes in arrays, which must not be changed any more.
   *
   * @param statuses for each block {@link Status#code}
   * @param tiers for each block {@link TierId#code}
   */
  public static Blocks wrap(byte[] statuses, byte[] tiers) {
    if (statuses.length != tiers.length) {
      throw new IllegalArgumentException(
          statuses.length + " statuses, but " + tiers.length + " tiers");
    }
    return new Blocks(statuses, tiers);
  }

  public int count() {
    return statuses.length;
  }

  public Status status(int index) {
    return Status.of(Byte.toUnsignedInt(statuses[index]));
  }

  /** Where the block is, {@link TierId#NONE} where that was not asked or it is nowhere. */
  public TierId tier(int index) {
    return TierId.of(Byte.toUnsignedInt(tiers[index]));
  }

  /** How many blocks have this status. */
  public int count(Status status) {
    int found = 0;
    for (byte code : statuses) {
      if (code == (byte) status.code()) {
        found++;
      }
    }
    return found;
  }

  public boolean all(Status status) {
    return count(status) == statuses.length;
  }

  /** How many blocks from the first are {@link Status#OK}. */
  public int run() {
    int run = 0;
    while (run < statuses.length && statuses[run] == (byte) Status.OK.code()) {
      run++;
    }
    return run;
  }

  /** The statuses as a list, a view. */
  public List<Status> statuses() {
    return new AbstractList<>() {
      @Override
      public Status get(int index) {
        return status(index);
      }

      @Override
      public int size() {
        return count();
      }
    };
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Blocks blocks
        && Arrays.equals(blocks.statuses, statuses)
        && Arrays.equals(blocks.tiers, tiers);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(statuses) + Arrays.hashCode(tiers);
  }

  @Override
  public String toString() {
    return statuses().toString();
  }
}

package io.kvtier.daemon.index.source;

import java.util.List;

/** The sources of blocks, in the order in which they are asked. */
public final class Sources {
  /** No source. */
  public static final int NONE = -1;

  private final BlockSource[] order;

  public Sources(List<BlockSource> sources) {
    order = sources.toArray(BlockSource[]::new);
  }

  public int count() {
    return order.length;
  }

  public BlockSource at(int source) {
    return order[source];
  }

  /** The first open source that is known to have a block. */
  public int first(int block) {
    return after(NONE, block);
  }

  /** The first open source after another one that is known to have a block. */
  public int after(int source, int block) {
    for (int next = source + 1; next < order.length; next++) {
      if (order[next].isOpen() && order[next].has(block)) {
        return next;
      }
    }
    return NONE;
  }

  /** The lookup under way has named all that it does not know. */
  public void endLookup() {
    for (BlockSource source : order) {
      source.endLookup();
    }
  }

  /** Tells of the questions that are answered; returns how many. */
  public int collect(BlockSource.Finder finder) {
    int count = 0;
    for (BlockSource source : order) {
      count += source.collect(finder);
    }
    return count;
  }

  public boolean hasFound() {
    for (BlockSource source : order) {
      if (source.hasFound()) {
        return true;
      }
    }
    return false;
  }

  /** Asks as much as may be under way. */
  public void advance() {
    for (BlockSource source : order) {
      source.advance();
    }
  }

  /** How much is being found out, or is to be. */
  public int waiting() {
    int waiting = 0;
    for (BlockSource source : order) {
      waiting += source.waiting();
    }
    return waiting;
  }

  public void checkInvariants() {
    for (BlockSource source : order) {
      source.checkInvariants();
    }
  }
}

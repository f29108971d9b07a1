package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.tiers.object.PresenceCache.Presence;
import java.util.List;

/** The sources of blocks, in the order in which they are asked. */
public final class Sources {
  /** No source. */
  public static final int NONE = -1;

  private final BlockSource[] order;
  private final int expecting;
  private int unknown = NONE;

  public Sources(List<BlockSource> sources) {
    order = sources.toArray(BlockSource[]::new);
    int found = NONE;
    for (int i = 0; i < order.length; i++) {
      found = order[i].isExpecting() ? i : found;
    }
    expecting = found;
  }

  /** The source that waits for blocks of other nodes. */
  public int expecting() {
    return expecting;
  }

  public int count() {
    return order.length;
  }

  public BlockSource at(int source) {
    return order[source];
  }

  /**
   * Searches for the block whose key was sought last, and of which there is no record.
   *
   * @param isToRead whether only open sources count
   * @return the first source that is known to have the block; if there is none, {@link #unknown}
   *     says where to ask
   */
  public int find(Namespaces.Namespace namespace, int keyBytes, int group, boolean isToRead) {
    unknown = NONE;
    for (int i = 0; i < order.length; i++) {
      Presence presence = order[i].presenceOfSought(namespace, keyBytes, group);
      if (presence != Presence.ABSENT && (!isToRead || order[i].isOpen())) {
        if (presence == Presence.PRESENT) {
          return i;
        }
        unknown = unknown == NONE ? i : unknown;
      }
    }
    return NONE;
  }

  /** Has the sources be asked again that do not have the block whose key was sought last. */
  public void forgetAbsence(Namespaces.Namespace namespace, int keyBytes, int group) {
    for (BlockSource source : order) {
      source.forgetAbsence(namespace, keyBytes, group);
    }
  }

  /** The first source that the last {@link #find} passed, and that may have the block. */
  public int unknown() {
    return unknown;
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

  /** The lookup under way has named all its unknown blocks. */
  public void endLookup() {
    for (BlockSource source : order) {
      source.endLookup();
    }
  }

  /** Gives the answers that have come to a finder; returns how many. */
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

  /** Asks waiting questions, as many as may be under way. */
  public void advance() {
    for (BlockSource source : order) {
      source.advance();
    }
  }

  /** How many questions are under way or wait. */
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

package io.kvtier.tiers.node;

import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.HolderTable;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.directory.Partitions;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Announces the blocks in this node's memory to the owners of their partitions. When partitions get
 * other owners, a walk over all blocks finds what must be announced to them, and taken back from
 * the owners before. So an owner has the blocks of exactly those partitions that this node takes
 * for the owner's. It begins when the directory is open. Confined to the first reader.
 */
final class DirectoryClient {
  private static final int CHANGES_PER_ROUND = 8192;
  private static final int BUCKETS_PER_ROUND = 256;

  private final NodeReader reader;
  private final NodeDirectory directory;
  private final ChangeFeed feed;
  private final boolean isAlwaysAsked;
  private boolean hasBegun;

  /** The announcements to each connected node. */
  private final Map<Long, Outbox> outboxes = new HashMap<>();

  /** The partitions whose blocks the next walk announces. */
  private BitSet toWalk = new BitSet(Partitions.COUNT);

  /** The partitions whose blocks the walk under way announces; null if there is none. */
  private @Nullable BitSet walking;

  /** The owners before of partitions, from whom the next walk takes the blocks back. */
  private Map<Integer, Set<Long>> toTakeBack = new HashMap<>();

  /** The owners before from whom the walk under way takes blocks back. */
  private Map<Integer, Set<Long>> takingBack = new HashMap<>();

  /**
   * Announces nothing yet.
   *
   * @param isAlwaysAsked whether owners are asked for blocks also where all nodes could be asked
   */
  DirectoryClient(
      NodeReader reader, NodeDirectory directory, ChangeFeed feed, boolean isAlwaysAsked) {
    this.reader = reader;
    this.directory = directory;
    this.feed = feed;
    this.isAlwaysAsked = isAlwaysAsked;
    toWalk.set(0, Partitions.COUNT);
  }

  NodeDirectory directory() {
    return directory;
  }

  /** Whether blocks are announced. */
  boolean hasBegun() {
    return hasBegun;
  }

  /** Whether owners are asked for blocks now, instead of all nodes. */
  boolean isAsked() {
    return hasBegun && (isAlwaysAsked || outboxes.size() > NodeTier.PEERS_MAX);
  }

  /** The connection to a node; null if there is none. */
  @Nullable PeerLink link(long node) {
    Outbox outbox = outboxes.get(node);
    return outbox == null ? null : outbox.link();
  }

  /** A node is connected. */
  void connected(PeerLink link) {
    if (hasBegun) {
      add(link);
    }
  }

  private void begin() {
    hasBegun = true;
    feed.open();
    reader.readyLinks().forEach(this::add);
  }

  private void add(PeerLink link) {
    long node = link.incarnation();
    outboxes.put(node, new Outbox(link, () -> toWalk.or(directory.partitionsOf(node))));
    BitSet moved =
        directory.join(
            node,
            (partition, before) ->
                toTakeBack.computeIfAbsent(partition, _ -> new HashSet<>()).add(before));
    // A node that is known has a new connection, on which it is told everything again.
    toWalk.or(moved.isEmpty() ? directory.partitionsOf(node) : moved);
  }

  /** A connection has ended. */
  void closed(PeerLink link) {
    long node = link.incarnation();
    if (link.equals(link(node))) {
      outboxes.remove(node);
      toWalk.or(directory.leave(node));
    }
  }

  /** One round; returns how much was done. */
  int doWork(long nowNs) {
    if (!hasBegun) {
      if (!directory.isOpen()) {
        return 0;
      }
      begin();
    }
    int work = 0;
    for (long entry = feed.poll(); entry != 0; entry = feed.poll()) {
      take(entry, nowNs);
      if (++work == CHANGES_PER_ROUND) {
        break;
      }
    }
    if (feed.takeLost()) {
      directory.restart();
      outboxes.values().forEach(Outbox::beginAnew);
      toWalk.set(0, Partitions.COUNT);
    }
    if (walking == null && !toWalk.isEmpty()) {
      walking = toWalk;
      toWalk = new BitSet(Partitions.COUNT);
      takingBack = toTakeBack;
      toTakeBack = new HashMap<>();
      feed.walk();
    }
    boolean isBehind = false;
    for (Outbox outbox : outboxes.values()) {
      outbox.flush(nowNs);
      isBehind |= outbox.isBehind();
    }
    feed.holdWalks(isBehind);
    directory.advance(BUCKETS_PER_ROUND);
    return work;
  }

  private void take(long entry, long nowNs) {
    switch (ChangeFeed.kindOf(entry)) {
      case ChangeFeed.WALKED -> {
        walking = null;
        takingBack = new HashMap<>();
      }
      case ChangeFeed.FOUND -> {
        if (walking != null && walking.get(Partitions.of(entry))) {
          takeBack(takingBack, entry, nowNs);
          announce(directory.owner(entry), entry, nowNs);
        }
      }
      case ChangeFeed.LEFT -> {
        takeBack(takingBack, entry, nowNs);
        takeBack(toTakeBack, entry, nowNs);
        announce(directory.owner(entry), entry, nowNs);
      }
      default -> announce(directory.owner(entry), entry, nowNs);
    }
  }

  /** Tells the owners before of a block's partition that the block has left. */
  private void takeBack(Map<Integer, Set<Long>> owners, long entry, long nowNs) {
    long left = (entry & HolderTable.HASH_BITS) | ChangeFeed.LEFT;
    for (long before : owners.getOrDefault(Partitions.of(entry), Set.of())) {
      if (before != directory.owner(entry)) {
        announce(before, left, nowNs);
      }
    }
  }

  private void announce(long owner, long entry, long nowNs) {
    if (owner == reader.options().incarnation()) {
      directory.noteOwn(entry);
    } else {
      Outbox outbox = outboxes.get(owner);
      if (outbox != null) {
        outbox.add(entry, nowNs);
      }
    }
  }
}

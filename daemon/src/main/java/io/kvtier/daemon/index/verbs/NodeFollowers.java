package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.device.PartialBlocks;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * The blocks that other nodes expect from here. A node hears of each piece of such a block when it
 * has been written, and of its checksum when it is whole. From the first piece on, the node has a
 * lease of the block, so the slot stays as it is until the node's link reads it no more. Nothing is
 * loaded for other nodes: a block that only a lower tier has is none. Confined to the index.
 */
final class NodeFollowers implements PartialBlocks.Listener {
  private static final long LOOK_EVERY_NS = 10_000_000;

  /** The name of a block. */
  private record Name(long high, long low, int group, ByteBuffer key) {}

  /** A node that waits for a block. */
  private static final class Follower {
    final Session session;
    final NodeCall.Follow call;
    final Name name;
    final long deadlineNs;

    /** The lease of the block; 0 before the first piece. */
    long lease;

    /** Whether all was told, and whether that was the whole block. */
    boolean isOver;

    boolean isWhole;

    /** When the block became whole while the node waited for it; 0 if it was whole before. */
    long wholeNs;

    Follower(Session session, NodeCall.Follow call, Name name, long deadlineNs) {
      this.session = session;
      this.call = call;
      this.name = name;
      this.deadlineNs = deadlineNs;
    }
  }

  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final ResidentTier first;
  private final PartialBlocks partial;
  private final HoldTable holds;
  private final Holdings holdings;
  private final LongSupplier clock;
  private final Latencies latencies;
  private final long withinNsMax;

  /** The followers of each session, by their calls; also those to whom all was told. */
  private final Map<Session, Map<NodeCall.Follow, Follower>> ofSession = new HashMap<>();

  /** Those to whom something is still to be told. */
  private final Map<Name, List<Follower>> waiting = new HashMap<>();

  private int size;
  private long nextLookNs;

  NodeFollowers(
      IndexCore core,
      SessionParts parts,
      BlockStore store,
      PartialBlocks partial,
      Holdings holdings) {
    directory = core.directory();
    namespaces = core.namespaces();
    clock = core.clock();
    latencies = core.latencies();
    withinNsMax = core.limits().times().deadlineNsMax();
    holds = parts.holds();
    this.store = store;
    this.partial = partial;
    this.holdings = holdings;
    first = store.first();
  }

  /** How many blocks other nodes wait for. */
  int size() {
    return size;
  }

  // ---- what a node asks

  void follow(Session session, NodeCall.Follow call) {
    if (session.ended) {
      return; // so has the link
    }
    NodeCall.Blocks named = call.block();
    byte[] key = new byte[named.keyBytes()];
    MemorySegment.copy(named.keys(), 0, MemorySegment.ofArray(key), 0, key.length);
    long withinNs = Math.min(call.withinNs(), withinNsMax);
    Follower follower =
        new Follower(
            session,
            call,
            new Name(named.high(), named.low(), named.group(), ByteBuffer.wrap(key)),
            clock.getAsLong() + withinNs);
    ofSession.computeIfAbsent(session, _ -> new LinkedHashMap<>()).put(call, follower);
    waiting.computeIfAbsent(follower.name, _ -> new ArrayList<>(1)).add(follower);
    size++;
    Namespaces.Namespace namespace = namespaces.byFingerprint(named.high(), named.low());
    int block =
        namespace == null
            ? Directory.NONE
            : directory.find(
                namespace.id(), named.group(), named.keyBytes(), named.keys(), named.at(0));
    if (block != Directory.NONE) {
      tellAll(follower, block);
    }
  }

  /** Tells all that is known of a block. */
  private void tellAll(Follower follower, int block) {
    if (first.isResident(block)) {
      whole(follower, block);
    } else if (partial.isLost(block)) {
      lose(follower, Status.MISS, "a part of the block was lost");
    } else if (partial.has(block)) {
      partial.forEachPiece(
          block,
          new PartialBlocks.Listener() {
            @Override
            public void onArrived(int of, int units, int from, int to) {
              piece(follower, of, units, from, to);
            }

            @Override
            public void onLost(int of) {}
          });
    } else if (store.stack().storedIn(block) != null && first.state(block) == CopyState.NONE) {
      lose(follower, Status.MISS, "only a lower tier has the block");
    }
  }

  /** The node's link reads a block no more. */
  void unfollow(Session session, NodeCall.Follow call, boolean isDamaged) {
    Map<NodeCall.Follow, Follower> own = ofSession.get(session);
    Follower follower = own == null ? null : own.remove(call);
    if (follower == null) {
      return; // it has ended with its session
    }
    if (own != null && own.isEmpty()) {
      ofSession.remove(session);
    }
    end(follower);
    if (follower.isWhole && follower.wholeNs != 0 && !isDamaged) {
      latencies.took(Latencies.Kind.DELIVER_NODE, clock.getAsLong() - follower.wholeNs);
    }
    if (follower.lease != 0) {
      holdings.endLease(session, follower.lease, isDamaged && follower.isWhole);
    }
  }

  /** A session ends; its leases end with it. */
  void endAllOf(Session session) {
    Map<NodeCall.Follow, Follower> own = ofSession.remove(session);
    if (own != null) {
      own.values().forEach(this::end);
    }
  }

  // ---- what becomes of blocks

  @Override
  public void onArrived(int block, int units, int from, int to) {
    if (!waiting.isEmpty()) {
      followersOf(block).forEach(one -> piece(one, block, units, from, to));
    }
  }

  @Override
  public void onLost(int block) {
    if (!waiting.isEmpty()) {
      followersOf(block).forEach(one -> lose(one, Status.MISS, "a part of the block was lost"));
    }
  }

  /** The first copy of a block became resident, or failed to. */
  void onFirstSettled(int block, Status status) {
    if (waiting.isEmpty()) {
      return;
    }
    for (Follower one : followersOf(block)) {
      if (status == Status.OK) {
        one.wholeNs = clock.getAsLong();
        whole(one, block);
      } else if (one.lease != 0) {
        lose(one, Status.MISS, "the block was deleted");
      }
    }
  }

  private List<Follower> followersOf(int block) {
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    byte[] key = new byte[Protocol.KEY_BYTES_MAX];
    directory.copyKey(block, key);
    Name name =
        new Name(
            namespace.high(),
            namespace.low(),
            directory.group(block),
            ByteBuffer.wrap(key, 0, directory.keyBytes(block)));
    return List.copyOf(waiting.getOrDefault(name, List.of()));
  }

  private void piece(Follower follower, int block, int units, int from, int to) {
    if (holds(follower, block)) {
      int slot = first.slot(block);
      SlotAllocator slots = first.slots();
      follower
          .call
          .told()
          .accept(
              new NodeCall.Followed.Piece(
                  slots.regionOf(slot), slots.offsetOf(slot), units, from, to));
    }
  }

  private void whole(Follower follower, int block) {
    if (holds(follower, block)) {
      int slot = first.slot(block);
      SlotAllocator slots = first.slots();
      end(follower);
      follower.isWhole = true;
      follower
          .call
          .told()
          .accept(
              new NodeCall.Followed.Whole(
                  slots.regionOf(slot), slots.offsetOf(slot), directory.checksum(block)));
    }
  }

  /** Takes a lease of a block, unless the node has one, or can't have one. */
  private boolean holds(Follower follower, int block) {
    if (follower.lease != 0) {
      return true;
    }
    Session session = follower.session;
    if (namespaces.of(directory, block).tenant() != session.tenant()
        || namespaces.storedBytes(directory, block) != follower.call.blockBytes()) {
      lose(follower, Status.MISS, "the block has another length or another tenant");
      return false;
    }
    int hold = holdings.leaseForNode(session, block);
    if (hold == HoldTable.NONE) {
      lose(follower, Status.BUSY, "too much is leased");
      return false;
    }
    store.pin(block);
    follower.lease = holds.id(hold);
    return true;
  }

  private void lose(Follower follower, Status status, String why) {
    end(follower);
    follower.call.told().accept(new NodeCall.Followed.Lost(status, why));
  }

  /** Nothing is to be told any more. */
  private void end(Follower follower) {
    if (follower.isOver) {
      return;
    }
    follower.isOver = true;
    size--;
    List<Follower> others = waiting.get(follower.name);
    if (others != null) {
      others.remove(follower);
      if (others.isEmpty()) {
        waiting.remove(follower.name);
      }
    }
  }

  /** Ends the wait of nodes whose time is over. */
  void checkTime(long nowNs) {
    if (size == 0 || nowNs - nextLookNs < 0) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    List<Follower> late = new ArrayList<>();
    for (List<Follower> some : waiting.values()) {
      for (Follower one : some) {
        if (nowNs - one.deadlineNs >= 0) {
          late.add(one);
        }
      }
    }
    late.forEach(one -> lose(one, Status.DEADLINE, "the block was not written in time"));
  }
}

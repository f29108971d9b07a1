package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Counter;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Blocks that are put together from copies of their layers and heads: by one rank of an engine that
 * copies layer by layer, or by several ranks that have a shard each. Ranks may belong to different
 * sessions, and copy to the block's slot by OFFLOAD, or by RESERVE and COMMIT of a shard. A block
 * becomes visible when all of its bytes have arrived. It is given up if a copy fails, or if the
 * missing bytes do not come. Then its slot is free when nobody copies there, and no node reads
 * there any more.
 *
 * <p>GPUs encode their parts of a block, each granule to its own place. If a part does not fit, the
 * block becomes raw: this part and all later ones are copied raw to another slot. Parts that came
 * encoded, or are on their way, stay in the encoded slot until the block is whole. Then they are
 * decoded to the raw slot. Confined to the index.
 */
public final class PartialBlocks {
  /** The outcome of an attempt to add bytes to a block. */
  public enum Join {
    /** Nobody puts the block together, or its assembly has failed. */
    NOT_PARTIAL,
    /** These bytes are there, or somebody copies them. */
    CLAIMED,
    /** The caller can copy its bytes to the block's slot. */
    JOINED
  }

  /** Hears of the bytes of blocks that are being put together. */
  public interface Listener {
    /**
     * A piece of a block has arrived in its slot.
     *
     * @param units in how many equal parts the block is cut
     * @param from the first of these parts that have arrived
     * @param to the part after the last one
     */
    void onArrived(int block, int units, int from, int to);

    /** A block will not be whole. */
    void onLost(int block);
  }

  private static final Listener NOBODY =
      new Listener() {
        @Override
        public void onArrived(int block, int units, int from, int to) {}

        @Override
        public void onLost(int block) {}
      };

  private static final long LOOK_EVERY_NS = 100_000_000;

  private final Directory directory;
  private final BlockStore store;
  private final Counters counters;
  private final LongSupplier clock;
  private final Assemblies assemblies;
  private final int perSessionMax;
  private final long restWithinNs;
  private Listener listener = NOBODY;

  /** The region whose shard each hold is of. */
  private final @Nullable Region[] regionOfHold;

  private final PartOfBlock arrived = new PartOfBlock();
  private long nextLookNs;

  /**
   * Without a block.
   *
   * @param most how many blocks there can be
   */
  PartialBlocks(IndexCore core, BlockStore store, int most) {
    this.store = store;
    directory = core.directory();
    counters = core.counters();
    clock = core.clock();
    assemblies = new Assemblies(most, core.limits().sessionsMax());
    regionOfHold = new Region[core.limits().holdsMax()];
    perSessionMax = core.limits().holdsPerSessionMax();
    restWithinNs = core.limits().times().leaseNs();
  }

  /** Sets who hears of the bytes of blocks. */
  public void connect(Listener told) {
    listener = told;
  }

  /**
   * Begins to put a fresh block together.
   *
   * @param part what the caller is about to copy
   * @return false when the session, or the daemon, has too many such blocks
   */
  public boolean begin(Session session, int block, PartOfBlock part) {
    int assembly =
        assemblies.size(session) >= perSessionMax
            ? Assemblies.NONE
            : assemblies.begin(block, session, part);
    return assembly != Assemblies.NONE && claim(assembly, part);
  }

  /**
   * Adds bytes to a block that somebody has begun to put together.
   *
   * @param part what the caller is about to copy
   */
  public Join join(int block, PartOfBlock part) {
    int assembly = assemblies.find(block);
    if (assembly == Assemblies.NONE || assemblies.isFailed(assembly)) {
      return Join.NOT_PARTIAL;
    }
    return claim(assembly, part) ? Join.JOINED : Join.CLAIMED;
  }

  private boolean claim(int assembly, PartOfBlock part) {
    assemblies.setEnd(assembly, clock.getAsLong() + restWithinNs);
    return assemblies.claim(assembly, part.shard, part.fromLayer, part.toLayer);
  }

  /** Whether a block is being put together. */
  public boolean has(int block) {
    return assemblies.find(block) != Assemblies.NONE;
  }

  /** Whether a block that is being put together will not be whole. */
  public boolean isLost(int block) {
    int assembly = assemblies.find(block);
    return assembly != Assemblies.NONE && assemblies.isFailed(assembly);
  }

  /** Bytes that were claimed won't come: the block can't be whole. */
  public void leave(int block) {
    int assembly = required(block);
    assemblies.endUse(assembly);
    fail(assembly);
  }

  private void fail(int assembly) {
    boolean isNews = !assemblies.isFailed(assembly);
    assemblies.fail(assembly);
    if (isNews) {
      listener.onLost(assemblies.block(assembly));
    }
    settle(assembly);
  }

  /**
   * Bytes that were claimed have arrived, copied by a GPU.
   *
   * @param from the first layer, by its number in the region
   * @param to the layer after the last one
   * @param isEncoded whether the GPU has encoded them
   * @return whether the block is whole
   */
  boolean copied(int block, Region region, int from, int to, boolean isEncoded) {
    int assembly = required(block);
    assemblies.endUse(assembly);
    arrived.set(region, from, to);
    arrive(assembly, isEncoded);
    BlockEncoding encoding = region.encoding;
    if (encoding != null
        && assemblies.encodedSlot(assembly) != Assemblies.NO_SLOT
        && assemblies.isWhole(assembly)) {
      completeRaw(assembly, encoding, region.layout);
      return true;
    }
    return settle(assembly);
  }

  /**
   * A part of an encoded block does not fit: the block has no slot from now on, and becomes raw. If
   * the block has other parts, its encoded slot is kept for them.
   */
  public void becomeRaw(int block) {
    int assembly = required(block);
    if (assemblies.hasOthers(assembly)) {
      // In use: the record stays while the slot is kept.
      store.use(block);
      assemblies.keepEncoded(assembly, store.first().keepSlot(block));
    } else {
      store.first().free(block);
    }
    directory.set(Directory.FLAG_ENCODED, block, false);
  }

  /** A client is about to write a region's shard of a block, on account of a hold. */
  void reserved(int hold, Region region) {
    regionOfHold[hold] = region;
  }

  /**
   * Bytes that were claimed have arrived, written by a client.
   *
   * @param hold the number of the client's reservation, which may have ended just now
   * @return whether the block is whole
   */
  public boolean written(int block, int hold) {
    int assembly = required(block);
    assemblies.setClientBytes(assembly);
    assemblies.endUse(assembly);
    Region region = regionOfHold[hold];
    regionOfHold[hold] = null;
    if (region != null) {
      arrived.set(region, 0, region.layout.layers());
      arrive(assembly, false);
    }
    return settle(assembly);
  }

  /** The bytes of {@link #arrived} are there. */
  private void arrive(int assembly, boolean isEncoded) {
    assemblies.arrive(assembly, arrived, isEncoded);
    if (!assemblies.isFailed(assembly)) {
      tell(assembly, arrived.fromLayer, arrived.toLayer, listener);
    }
  }

  /** Tells of the pieces of a block that have arrived. */
  public void forEachPiece(int block, Listener told) {
    int assembly = assemblies.find(block);
    if (assembly != Assemblies.NONE && !assemblies.isFailed(assembly)) {
      tell(assembly, 0, units(assembly), told);
    }
  }

  private void tell(int assembly, int from, int to, Listener told) {
    int units = units(assembly);
    if (units == 1) {
      return; // its bytes are told of when it is whole
    }
    int block = assemblies.block(assembly);
    int begin = from;
    for (int layer = from; layer < to; layer++) {
      if (!assemblies.hasLayer(assembly, layer)) {
        if (begin < layer) {
          told.onArrived(block, units, begin, layer);
        }
        begin = layer + 1;
      }
    }
    if (begin < to) {
      told.onArrived(block, units, begin, to);
    }
  }

  /** In how many parts the listener is told of a block; 1 if any of the parts came encoded. */
  private int units(int assembly) {
    boolean isEncoded =
        directory.has(Directory.FLAG_ENCODED, assemblies.block(assembly))
            || assemblies.encodedSlot(assembly) != Assemblies.NO_SLOT;
    return isEncoded ? 1 : assemblies.units(assembly);
  }

  /** Nobody else reads a block here on account of a lease that has ended. */
  public void released(int block) {
    int assembly = assemblies.find(block);
    if (assembly != Assemblies.NONE) {
      settle(assembly);
    }
  }

  private int required(int block) {
    int assembly = assemblies.find(block);
    if (assembly == Assemblies.NONE) {
      throw new IllegalStateException("block " + block + " is not being put together");
    }
    return assembly;
  }

  /**
   * Completes a block that is whole, or drops one that failed; any other block waits.
   *
   * @return whether the block is whole
   */
  private boolean settle(int assembly) {
    int block = assemblies.block(assembly);
    if (assemblies.isWhole(assembly)) {
      complete(assembly, block);
      return true;
    }
    if (assemblies.isUnused(assembly) && assemblies.isFailed(assembly) && !store.isHeld(block)) {
      int encodedSlot = assemblies.encodedSlot(assembly);
      assemblies.end(assembly);
      if (store.first().state(block) == CopyState.RESERVED) {
        store.abandon(block);
      }
      if (encodedSlot != Assemblies.NO_SLOT) {
        store.first().freeKept(encodedSlot);
        store.endUse(block);
      }
    }
    return false;
  }

  private void complete(int assembly, int block) {
    boolean hasClientBytes = assemblies.hasClientBytes(assembly);
    assemblies.end(assembly);
    if (hasClientBytes) {
      store.commit(block);
    } else {
      store.arrived(block);
    }
  }

  /** Completes a block that became raw, and is whole. */
  private void completeRaw(int assembly, BlockEncoding encoding, KvLayout layout) {
    int block = assemblies.block(assembly);
    int slot = assemblies.encodedSlot(assembly);
    EncodedParts parts = assemblies.encodedParts(assembly, encoding, layout);
    assemblies.end(assembly);
    store.decode(block, slot, encoding, parts);
    store.endUse(block);
  }

  /** Drops the blocks that a session has begun to put together. */
  void close(Session session) {
    for (int one = 0; one < assemblies.highWater() && assemblies.size(session) > 0; one++) {
      if (assemblies.isOf(one, session)) {
        assemblies.disown(one);
        fail(one);
      }
    }
  }

  /** Drops blocks whose missing bytes do not come. */
  void checkTime(long nowNs) {
    if (nowNs < nextLookNs) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    for (int one = 0; one < assemblies.highWater() && assemblies.size() > 0; one++) {
      if (assemblies.isOverdue(one, nowNs)) {
        fail(one);
        counters.add(Counter.PARTIAL_EXPIRED, 1);
      }
    }
  }

  /** Whether any block waits for bytes, which could come too late. */
  boolean hasDeadlines() {
    return assemblies.size() > 0;
  }

  /** Checks that each block has its record, and that no kept slot is forgotten; for tests. */
  void checkInvariants() {
    int kept = store.decoding();
    for (int one = 0; one < assemblies.highWater(); one++) {
      int block = assemblies.block(one);
      if (block != Directory.NONE && !directory.isUsed(block)) {
        throw new IllegalStateException("block " + block + " is put together without a record");
      }
      kept += assemblies.encodedSlot(one) == Assemblies.NO_SLOT ? 0 : 1;
    }
    if (kept != store.first().kept()) {
      throw new IllegalStateException(
          store.first().kept() + " slots are kept for " + kept + " blocks");
    }
  }
}

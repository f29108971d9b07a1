package io.kvtier.daemon.index.transfer;

import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.source.BlockSource;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.tiers.transfer.EncodedGranules;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Hands blocks to the pipelines and takes them back: has checksums made, and says how each transfer
 * ended. {@link LowerMoves} has the loads and stores of lower tiers, {@link SourceMoves} those of
 * sources, and {@link Relays} the copies from a lower tier further down. Confined to the index.
 */
public final class Mover {
  private static final int CHECKSUM_PRIORITY = 1;

  private final ResidentTier first;
  private final LowerTiers lower;
  private final Sources sources;
  private final Pipeline checksums;
  private final int checksumDepth;
  private final Tenants tenants;
  private final int[] checksumsOf;
  private final Latencies latencies;
  private final TransferWatch watch;
  private final TransferPool pool;
  private final Departures departures;
  private final LowerMoves below;
  private final SourceMoves outside;
  private final Relays relays;
  private final ArrayDeque<Transfer> finished = new ArrayDeque<>();
  private final Consumer<Transfer> onFinished = finished::add;
  private final Settlement settlement = new Settlement();

  /**
   * Nothing is under way.
   *
   * @param top the parts of the first tier
   * @param objects null when there is no object tier
   * @param watch hears how transfers ended
   */
  public Mover(
      IndexCore core,
      TierParts.First top,
      @Nullable ObjectParts objects,
      TierStack stack,
      LowerTiers lower,
      Sources sources,
      TransferWatch watch) {
    first = stack.first();
    this.lower = lower;
    this.sources = sources;
    checksums = top.checksums().pipeline();
    checksumDepth = top.checksums().depth();
    tenants = core.namespaces().tenants();
    checksumsOf = new int[tenants.count()];
    latencies = core.latencies();
    this.watch = watch;
    int transfers = checksumDepth;
    for (int i = 0; i < sources.count(); i++) {
      transfers += sources.at(i).depth();
    }
    for (LowerTier one : lower) {
      transfers += one.parts().devices().pipelines().size() * one.parts().devices().depth();
    }
    pool = new TransferPool(transfers, core, first, top.slabs());
    departures = new Departures(core, first);
    below = new LowerMoves(pool, stack, lower, departures);
    outside = new SourceMoves(pool, core.directory(), tenants, sources, objects, departures, watch);
    RelayBuffers buffers = new RelayBuffers(objects == null ? 0 : objects.spillBytes());
    relays = new Relays(pool, stack, lower, below, outside, buffers);
  }

  /** Loads and stores of lower tiers. */
  public LowerMoves below() {
    return below;
  }

  /** Reads from sources, and writes to the object store. */
  public SourceMoves outside() {
    return outside;
  }

  /** Copies from a lower tier further down. */
  public Relays relays() {
    return relays;
  }

  /** Blocks on their way out of the first tier, or of this node. */
  public Departures departures() {
    return departures;
  }

  // ---- checksums

  /**
   * Makes the checksum of a block's first copy; false when that can't be started now.
   *
   * @param rest parts of the block that are decoded to that copy first; null when all are there
   */
  public boolean checksum(int block, @Nullable EncodedGranules rest) {
    return startChecksum(block, TransferPool.Purpose.PLAIN, rest);
  }

  /** Makes the checksum of a resident block again; false when that can't be started now. */
  public boolean audit(int block) {
    return startChecksum(block, TransferPool.Purpose.AUDIT, null);
  }

  private boolean startChecksum(
      int block, TransferPool.Purpose why, @Nullable EncodedGranules rest) {
    int tenant = pool.tenantOf(block);
    if (pool.isEmpty()
        || checksums.inFlight() >= checksumDepth
        || checksumsOf[tenant] >= tenants.shareOf(checksumDepth, tenant)) {
      return false;
    }
    Transfer transfer = pool.takeFirst(block, Transfer.Kind.CHECKSUM, CHECKSUM_PRIORITY, why);
    transfer.rest = rest;
    if (!checksums.offer(transfer)) {
      return pool.takeBack();
    }
    checksumsOf[tenant]++;
    return pool.started(transfer);
  }

  // ---- stores

  /**
   * A copy leaves a tier while its store may be under way: no ledger row of the copy may be written
   * any more. A row that was written already must be deleted by the caller, afterwards.
   */
  public void giveUpStore(int block, int tier) {
    pool.giveUpStore(block, tier);
  }

  /** Sets the highest count of a store so far. */
  public void continueAfter(long lastStore) {
    pool.continueAfter(lastStore);
  }

  // ---- settlements

  /** Takes finished transfers from the pipelines, for {@link #poll}; returns how many. */
  public int collect() {
    return checksums.collect(onFinished) + lower.collect(onFinished) + outside.collect(onFinished);
  }

  /** Settles the next finished transfer, and ends its use of the block; null when there is none. */
  public @Nullable Settlement poll() {
    for (Transfer transfer = finished.poll(); transfer != null; transfer = finished.poll()) {
      Settlement one = settle(transfer);
      if (one != null) {
        return one;
      }
    }
    relays.advance();
    Transfer fenced = relays.pollFenced();
    return fenced == null ? null : endRelay(fenced, true);
  }

  private @Nullable Settlement settle(Transfer transfer) {
    return switch (transfer.kind) {
      case CHECKSUM -> settleChecksum(transfer);
      case LOAD ->
          pool.from(transfer) <= TransferPool.OUTSIDE
              ? settleFetch(transfer)
              : settleLoad(transfer);
      case STORE ->
          pool.to(transfer) == TransferPool.OUTSIDE
              ? settleUpload(transfer)
              : settleStore(transfer);
      case FORGET -> throw new IllegalStateException("a device settles what it forgets");
    };
  }

  /** Gives a transfer back, and says how it ended. */
  private Settlement settle(Transfer transfer, Settlement.Kind kind) {
    settlement.kind = kind;
    settlement.block = transfer.block;
    settlement.status = transfer.status;
    settlement.from = pool.from(transfer);
    settlement.to = pool.to(transfer);
    settlement.isRead = true;
    settlement.isEviction = pool.purpose(transfer) == TransferPool.Purpose.EVICT;
    settlement.checksum = transfer.checksum;
    settlement.writtenBytes = transfer.writtenBytes;
    settlement.annotation = transfer.annotation;
    settlement.annotationBytes = transfer.annotationBytes;
    pool.giveBack(transfer);
    return settlement;
  }

  private Settlement settleChecksum(Transfer transfer) {
    tell(transfer, first.traits().id());
    checksumsOf[transfer.owner]--;
    boolean isAudit = pool.purpose(transfer) == TransferPool.Purpose.AUDIT;
    return settle(transfer, isAudit ? Settlement.Kind.AUDIT : Settlement.Kind.CHECKSUM);
  }

  private @Nullable Settlement settleLoad(Transfer transfer) {
    LowerTier source = lower.at(pool.from(transfer));
    time(transfer, source.traits());
    tell(transfer, source.traits().id());
    return switch (pool.purpose(transfer)) {
      case SCRUB -> {
        below.scrubbed();
        yield settle(transfer, Settlement.Kind.SCRUB);
      }
      case RELAY -> relayRead(transfer);
      default -> {
        source.lanes().at(transfer.device).learn(transfer);
        if (transfer.status == Status.OK) {
          source.learn(transfer.length, transfer.elapsedNs);
        }
        yield settle(transfer, Settlement.Kind.LOAD);
      }
    };
  }

  private @Nullable Settlement relayRead(Transfer transfer) {
    if (transfer.status != Status.OK) {
      return endRelay(transfer, false);
    }
    relays.read(transfer);
    return null;
  }

  private Settlement settleStore(Transfer transfer) {
    LowerTier target = lower.at(pool.to(transfer));
    time(transfer, target.traits());
    tell(transfer, target.traits().id());
    target.lanes().at(transfer.device).learn(transfer);
    if (pool.purpose(transfer) == TransferPool.Purpose.RELAY) {
      return endRelay(transfer, true);
    }
    boolean isEviction = pool.purpose(transfer) == TransferPool.Purpose.EVICT;
    departures.store(transfer.block, isEviction, -1);
    return settle(transfer, Settlement.Kind.STORE);
  }

  private Settlement settleFetch(Transfer transfer) {
    int source = outside.sourceOf(transfer);
    BlockSource.Traits traits = sources.at(source).traits();
    tell(transfer, traits.id());
    Latencies.Kind times = traits.times();
    if (times != null) {
      time(transfer, times);
    }
    outside.fetched(transfer);
    settlement.source = source;
    return settle(transfer, Settlement.Kind.FETCH);
  }

  private Settlement settleUpload(Transfer transfer) {
    tell(transfer, TierId.OBJECT);
    time(transfer, Latencies.Kind.STORE_OBJECT);
    outside.written(transfer);
    if (pool.purpose(transfer) == TransferPool.Purpose.RELAY) {
      return endRelay(transfer, true);
    }
    boolean isEviction = pool.purpose(transfer) == TransferPool.Purpose.EVICT;
    outside.countUpload(transfer.owner, isEviction, -1);
    departures.store(transfer.block, isEviction, -1);
    return settle(transfer, Settlement.Kind.UPLOAD);
  }

  private Settlement endRelay(Transfer transfer, boolean isRead) {
    relays.ended(transfer);
    boolean isUpload = pool.to(transfer) == TransferPool.OUTSIDE;
    Settlement one = settle(transfer, isUpload ? Settlement.Kind.SPILL : Settlement.Kind.STORE);
    one.isRead = isRead;
    one.isEviction = true;
    return one;
  }

  private void tell(Transfer transfer, TierId tier) {
    if (watch.isInterested()) {
      // Requests wait for checksums and for loads, not for stores, scrubs or relays.
      boolean isAwaited =
          transfer.kind == Transfer.Kind.CHECKSUM
              || (transfer.kind == Transfer.Kind.LOAD
                  && pool.purpose(transfer) == TransferPool.Purpose.PLAIN);
      watch.settled(transfer, tier, isAwaited);
    }
  }

  private void time(Transfer transfer, TierTraits tier) {
    TierTraits.Times times = tier.times();
    if (times != null) {
      time(transfer, transfer.kind == Transfer.Kind.LOAD ? times.load() : times.store());
    }
  }

  /** Failed transfers are not timed. */
  private void time(Transfer transfer, Latencies.Kind kind) {
    if (transfer.status == Status.OK) {
      latencies.took(kind, transfer.elapsedNs);
    }
  }

  // ---- transfers under way

  public int checksumsInFlight() {
    return checksums.inFlight();
  }

  /** Whether transfers wait to be settled. */
  public boolean hasFinished() {
    return !finished.isEmpty()
        || relays.hasFenced()
        || checksums.hasFinished()
        || lower.hasFinished()
        || outside.hasFinished();
  }

  /** Whether nothing is under way, except reads that only verify blocks. */
  public boolean isIdle() {
    return !lower.isForgetting()
        && lower.inFlight() == below.scrubs()
        && checksums.inFlight() == 0
        && outside.inFlight() == 0
        && relays.count() == 0
        && finished.isEmpty();
  }
}
